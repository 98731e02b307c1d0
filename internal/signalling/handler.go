package signalling

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tidegate/codec/nethernet"
	"tidegate/internal/joining"
)

const joinPath = "/v1/join"

// maxID is the number of bytes of a join's ID that are kept for the log.
const maxID = 64

// ServeHTTP serves one request of a client.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := s.o.Now()
	client := s.clientOf(r)
	s.expectWithin(w)
	if r.ContentLength != 0 { // also if it is not read: the HTTP server reads on then
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.o.Times.Body))
	}
	// For some of these requests the HTTP server does not read on, and its close would reset the connection.
	if r.Close && r.ContentLength <= maxBody && r.Header.Get("Expect") == "" {
		defer func() { _, _ = io.CopyN(io.Discard, r.Body, maxBody) }()
	}
	id, ok := joinID(r)
	if r.Method == http.MethodGet {
		defer func() { s.listed.Store(time.Now().UnixNano()) }()
	}
	switch {
	case !s.allows(client):
		s.limit(w, http.StatusForbidden, "not allowed")
	case !s.spend(now, client):
		s.limit(w, http.StatusTooManyRequests, "too many requests")
	case s.o.OnlyTLS && r.TLS == nil:
		w.Header().Set("Upgrade", "TLS/1.2, HTTP/1.1")
		w.Header().Set("Connection", "Upgrade")
		s.refuse(w, http.StatusUpgradeRequired, "want TLS")
	case !ok:
		s.refuse(w, http.StatusNotFound, "not found")
	case r.Method == http.MethodGet && s.own.Load() != nil:
		s.ownList(w)
	case r.Method == http.MethodGet:
		s.list(w, r, client)
	case r.Method != http.MethodPost || id == "":
		w.Header().Set("Allow", "GET, POST")
		s.refuse(w, http.StatusMethodNotAllowed, "method not allowed")
	case s.o.Draining != nil && s.o.Draining():
		s.limit(w, http.StatusServiceUnavailable, "draining")
	case s.own.Load() != nil:
		s.ownJoin(w, r, client, id)
	default:
		s.join(w, r, client, id)
	}
}

// joinID returns what follows /v1/join/ in the path, as the log has it: one part, or nothing. A path that the server
// could take for another one is refused.
func joinID(r *http.Request) (id string, ok bool) {
	if r.URL.Path == joinPath {
		return "", true
	}
	id, ok = strings.CutPrefix(r.URL.Path, joinPath+"/")
	ok = ok && !strings.ContainsAny(id, "/\\") && id != "." && id != ".."
	return strings.ToValidUTF8(id[:min(len(id), maxID)], "?"), ok
}

// clientOf returns the address of the client. A trusted proxy's X-Forwarded-For names it: the last address that is no
// trusted proxy's.
func (s *Server) clientOf(r *http.Request) netip.Addr {
	client := connOf(r.Context()).client.Addr()
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && s.trusts(client); i-- {
		a, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		client = a.Unmap().WithZone("")
	}
	return client
}

// spend counts a request of a client, and reports whether it may pass.
func (s *Server) spend(now time.Time, client netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.budget.Allow(now, client)
}

// expectWithin bounds the time in which the client takes the response, from now on.
func (s *Server) expectWithin(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.o.Times.Body))
}

func (s *Server) limit(w http.ResponseWriter, status int, text string) {
	s.o.Tickets.Count(joining.Limited)
	http.Error(w, text, status)
}

func (s *Server) refuse(w http.ResponseWriter, status int, text string) {
	s.o.Tickets.Count(joining.Malformed)
	http.Error(w, text, status)
}

// list passes a question for the server's state on.
func (s *Server) list(w http.ResponseWriter, r *http.Request, client netip.Addr) {
	to, err := s.o.Pick(client, false, netip.AddrPort{})
	if err != nil {
		s.limit(w, http.StatusServiceUnavailable, "no server")
		return
	}
	_, in, err := s.ask(r, client, to, nil, nil)
	if err != nil {
		s.fail(w, err)
		return
	}
	s.pass(w, in, in.body)
}

// join passes an offer to a server, and its answer back.
func (s *Server) join(w http.ResponseWriter, r *http.Request, client netip.Addr, id string) {
	to, err := s.o.Pick(client, true, netip.AddrPort{})
	if err != nil {
		s.limit(w, http.StatusServiceUnavailable, "no server")
		return
	}
	ticket, err := s.o.Tickets.Ask(s.o.Now(), id, s.o.Route, client, to.Addr)
	if err != nil {
		if to.Free != nil {
			to.Free()
		}
		s.refuseTicket(w, err)
		return
	}
	s.o.Tickets.Place(ticket, to.Addr, to.Free)
	offer, _, status := s.offer(w, r, ticket)
	if status != 0 {
		s.o.Tickets.End(s.o.Now(), ticket, joining.Malformed, "")
		s.reply(w, status, http.StatusText(status))
		return
	}
	s.o.Tickets.Count(joining.Asked)
	place := connOf(r.Context())
	place.Keep() // others must not take its place while the server thinks
	defer place.Yield()
	to, in, err := s.ask(r, client, to, ticket, offer)
	if err != nil {
		s.o.Tickets.End(s.o.Now(), ticket, joining.Failed, err.Error())
		s.fail(w, err)
		return
	}
	s.answer(w, place, ticket, to, in)
}

// maxTries is the number of servers that are tried for one request.
const maxTries = 4

// ask passes a client's request on, and returns the server that it reached. The next server gets a question that has no
// good answer, but a join only if this server cannot have seen the offer. t is nil for a question.
func (s *Server) ask(r *http.Request, client netip.Addr, to Backend, t *joining.Ticket, offer []byte) (Backend,
	*response, error) {
	for tries := 1; ; tries++ {
		begun := s.o.Now()
		in, err := s.backends.ask(r.Context(), to, r, offer)
		fault, unseen := err, isUnseen(err)
		if err == nil && in.status >= http.StatusInternalServerError {
			fault = fmt.Errorf("HTTP status %d", in.status)
		}
		if fault == nil || isLate(fault) && !unseen || r.Context().Err() != nil {
			return to, in, err // to be slow is no fault
		}
		// A stranger's offer may be one that no server can bear, so a server's answer to it is not held against it.
		if (unseen || err == nil && t == nil) && s.o.Failed != nil {
			s.o.Failed(to.Addr, begun, fault)
		}
		if tries == maxTries || t != nil && !unseen {
			return to, in, err
		}
		next, none := s.o.Pick(client, t != nil, to.Addr)
		if none != nil {
			return to, in, err
		}
		if t != nil {
			s.o.Tickets.Place(t, next.Addr, next.Free)
		}
		if next.Addr == to.Addr {
			return to, in, err
		}
		to = next
	}
}

// isUnseen reports whether a server cannot have seen a request: it was not reached. Without descriptors here, no server
// is to blame.
func isUnseen(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" && !errors.Is(err, syscall.EMFILE)
}

func isLate(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// refuseTicket refuses a join for which there is no place.
func (s *Server) refuseTicket(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	if errors.Is(err, joining.ErrNetwork) {
		status = http.StatusTooManyRequests
	}
	s.limit(w, status, err.Error())
}

// offer reads a client's offer, and returns it as the server gets it. It sets the client's half of the ticket. A status
// other than 0 refuses the offer.
func (s *Server) offer(w http.ResponseWriter, r *http.Request, t *joining.Ticket) (offer []byte,
	d *nethernet.Description, status int) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, nil, http.StatusRequestEntityTooLarge
	case err != nil:
		return nil, nil, http.StatusBadRequest
	}
	if d, err = nethernet.ParseDescription(text); err != nil {
		return nil, nil, http.StatusBadRequest
	}
	t.ClientUfrag = d.Ufrag
	if offer, err = nethernet.Rewrite(text, nil); err != nil {
		return nil, nil, http.StatusBadRequest
	}
	return offer, d, 0
}

// answer passes a server's answer on once the ticket stands in the table: the client's first datagram may come before
// its own read of the answer ends.
func (s *Server) answer(w http.ResponseWriter, place *conn, t *joining.Ticket, to Backend, in *response) {
	now := s.o.Now()
	isAnswer := in.status < http.StatusMultipleChoices && bytes.HasPrefix(in.body, []byte("v="))
	if !isAnswer { // Bedrock's server refuses with 200 and a number
		s.o.Tickets.End(now, t, joining.Refused, refusal(in))
		s.pass(w, in, in.body)
		return
	}
	out, err := s.finish(place, t, to, in.body)
	if s.keep(w, now, t, err, http.StatusBadGateway, "the server's answer cannot be used") {
		s.pass(w, in, out)
	}
}

// keep notes that a ticket's answer is made, unless err says why there is none, and reports whether it may be passed
// on. Otherwise the client gets the status and the text, or hears of a conflict.
func (s *Server) keep(w http.ResponseWriter, now time.Time, t *joining.Ticket, err error, status int, text string,
) bool {
	if err == nil {
		err = s.o.Tickets.Answer(now, t)
	} else {
		s.o.Tickets.End(now, t, joining.Failed, err.Error())
	}
	switch {
	case err == nil:
		return true
	case errors.Is(err, joining.ErrConflict):
		status, text = http.StatusConflict, err.Error()
	}
	s.reply(w, status, text)
	return false
}

// finish sets the server's half of a ticket, and returns the answer as the client gets it.
func (s *Server) finish(place *conn, t *joining.Ticket, to Backend, answer []byte) ([]byte, error) {
	d, err := nethernet.ParseDescription(answer)
	if err != nil {
		return nil, err
	}
	if t.Target, err = d.Target(to.Addr.Addr(), to.AnyAddress); err != nil {
		return nil, err
	}
	t.ServerUfrag, t.ServerPassword = d.Ufrag, d.Password
	return nethernet.Rewrite(answer, s.o.Candidates(place.local.Addr()))
}

// refusal says for the log how a server refused.
func refusal(in *response) string {
	const most = 40
	body := strings.ToValidUTF8(string(in.body[:min(len(in.body), most)]), "")
	if in.status == http.StatusOK {
		return "code " + body
	}
	return http.StatusText(in.status) + " " + body
}

// fail answers for a server that did not.
func (s *Server) fail(w http.ResponseWriter, err error) {
	status := http.StatusBadGateway
	if isLate(err) {
		status = http.StatusGatewayTimeout
	}
	s.reply(w, status, "the server did not answer")
}

func (s *Server) reply(w http.ResponseWriter, status int, text string) {
	s.expectWithin(w)
	http.Error(w, text, status)
}

// pass writes a server's response, with a body that may be another one.
func (s *Server) pass(w http.ResponseWriter, in *response, body []byte) {
	s.expectWithin(w)
	maps.Copy(w.Header(), in.header)
	w.Header().Set("Content-Length", strconv.Itoa(len(body))) // or Go sends a long answer in chunks
	w.WriteHeader(in.status)
	_, _ = w.Write(body)
}
