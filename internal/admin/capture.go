package admin

import (
	"fmt"
	"net/http"
	"time"

	"tidegate/internal/capture"
	"tidegate/internal/cidr"
	"tidegate/proxy/relay/recording"
	"tidegate/session"
)

// captureQuery are the parameters that filter a capture.
var captureQuery = []string{"session", "client", "route", "upstream"}

// recordingQuery are the parameters that filter a recording.
var recordingQuery = []string{"last", "session", "client"}

// capture answers with a pcapng file that grows until the client disconnects, the proxy ends, or the requested session
// ends.
func (s *Server) capture(w http.ResponseWriter, r *http.Request) {
	filter, err := captureFilter(r, captureQuery)
	if err != nil {
		refuse(w, statusOf(err), err.Error())
		return
	}
	s.sendFile(w, r, "capture started by an operator", "capture ended", func(take func(*recording.Catch) error) error {
		return s.Captures.Capture(r.Context(), filter, take)
	})
}

// recording answers with a pcapng file of datagrams that the black boxes have.
func (s *Server) recording(w http.ResponseWriter, r *http.Request) {
	filter, err := recordFilter(r)
	if err != nil {
		refuse(w, statusOf(err), err.Error())
		return
	}
	read := func(take func(*recording.Catch) error) error {
		return s.Captures.Recorded(r.Context(), filter, take)
	}
	s.sendFile(w, r, "recording asked for by an operator", "recording sent", read)
}

// sendFile answers with a pcapng file of the datagrams that run passes to its argument. started and ended are log
// messages.
func (s *Server) sendFile(w http.ResponseWriter, r *http.Request, started, ended string,
	run func(take func(*recording.Catch) error) error) {
	of := r.URL.Query().Encode()
	var file *capture.Writer
	err := run(func(c *recording.Catch) (err error) {
		limitTime(w, writeTimeout) // extended each time: a capture may last long, but its reader must keep reading
		if file == nil {
			w.Header().Set("Content-Type", capture.MediaType)
			s.action(r).Str("of", of).Msg(started)
			if file, err = capture.NewWriter(w, s.Version, of); err != nil {
				return err
			}
		}
		if err = file.Write(c); err != nil {
			return err
		}
		return http.NewResponseController(w).Flush()
	})
	if file == nil {
		if err != nil {
			refuse(w, statusOf(err), err.Error())
		}
		return
	}
	written, leftOut := file.Totals()
	s.action(r).Str("of", of).Uint64("datagrams", written).Uint64("left_out", leftOut).AnErr("error", err).
		Msg(ended)
	if err != nil {
		panic(http.ErrAbortHandler) // so that the client does not take the file for complete
	}
}

// captureFilter parses a request's parameters, of which known are allowed.
func captureFilter(r *http.Request, known []string) (f recording.CaptureFilter, err error) {
	if err := checkQuery(r, known); err != nil {
		return f, err
	}
	ask := r.URL.Query()
	f.Route, f.Upstream = ask.Get("route"), ask.Get("upstream")
	if text := ask.Get("session"); text != "" {
		if f.Session, err = session.ParseID(text); err != nil {
			return f, badRequest{err}
		}
	}
	if text := ask.Get("client"); text != "" {
		if f.Client, err = cidr.Parse(text); err != nil {
			return f, badRequest{fmt.Errorf("client: %w", err)}
		}
	}
	return f, nil
}

// recordFilter parses a request's parameters.
func recordFilter(r *http.Request) (f recording.RecordFilter, err error) {
	same, err := captureFilter(r, recordingQuery)
	if err != nil {
		return f, err
	}
	f.Session, f.Client = same.Session, same.Client
	if text := r.URL.Query().Get("last"); text != "" {
		last, err := time.ParseDuration(text)
		if err != nil || last <= 0 {
			return f, badRequest{fmt.Errorf("last %q: want a time such as 30s", text)}
		}
		f.Since = time.Now().Add(-last)
	}
	return f, nil
}
