package nethernet

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxDescription is the size in bytes of the largest session description. Real ones have about 2,000.
const MaxDescription = 64 << 10

// Bounds and defaults of a description. RFC 8839 has those of the credentials.
const (
	maxCandidates    = 256 // the rest is ignored
	maxFingerprints  = 16
	leastUfrag       = 4
	leastPassword    = 22
	mostCredential   = 256
	usualMessageSize = 65536 // of a peer that states none, RFC 8841
)

// ErrDescription reports a session description that NetherNet does not have.
var ErrDescription = errors.New("unusable session description")

// Description is what an edge must know of an offer or an answer. Attributes of the media section go before those of
// the session.
type Description struct {
	Ufrag, Password string // of the ICE agent that wrote it
	Lite            bool   // ICE-lite
	Setup           string // "actpass" in an offer; the answer says who begins with DTLS: "active" or "passive"
	Fingerprints    []Fingerprint
	Identity        string // in base64, see ParseIdentity; empty: none
	MaxMessageSize  int    // in bytes, of a message that it can receive; 0: any
	SCTPPort        int    // 0: not stated
	Candidates      []Candidate
}

// Fingerprint is the digest of a certificate, exactly as the description has it.
type Fingerprint struct {
	Algorithm string `json:"algorithm"`
	Digest    string `json:"digest"`
}

// Candidate is an address at which an agent says that it can be reached. The agent can say anything.
type Candidate struct {
	Component int
	UDP       bool
	Address   netip.AddrPort // invalid if there is a name, such as those of mDNS
	Port      uint16
}

// ParseDescription reads a description. Errors wrap ErrDescription.
func ParseDescription(text []byte) (*Description, error) {
	r := reader{d: &Description{MaxMessageSize: usualMessageSize}, seen: make(map[string]bool)}
	for line, err := range lines(text) {
		if err == nil {
			err = r.line(line)
		}
		if err != nil {
			return nil, err
		}
	}
	d := r.d
	switch {
	case !r.media:
		return nil, fault("no m= line")
	case !isCredential(d.Ufrag, leastUfrag) || !isCredential(d.Password, leastPassword):
		return nil, fault("no usable ice-ufrag and ice-pwd")
	case len(d.Fingerprints) == 0:
		return nil, fault("no fingerprint")
	}
	return d, nil
}

func fault(text string) error { return fmt.Errorf("%w: %s", ErrDescription, text) }

// isCredential reports whether a text is a ufrag or a password. Each program must find the same text in the line, so
// there is neither space nor colon.
func isCredential(text string, least int) bool {
	if len(text) < least || len(text) > mostCredential {
		return false
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' || c == ':' {
			return false
		}
	}
	return true
}

// lines yields the lines of a description without their ends. Programs do not agree on other characters that may end a
// line, nor on bytes that are no UTF-8. So a description with one is a fault: it could hide lines from us. Empty lines
// at the end are left out.
func lines(text []byte) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if len(text) > MaxDescription || !utf8.Valid(text) {
			yield("", fault("too long, or no UTF-8"))
			return
		}
		rest := bytes.TrimRight(text, "\r\n")
		for more := true; more; {
			var own []byte
			own, rest, more = bytes.Cut(rest, []byte("\n"))
			line := strings.TrimSuffix(string(own), "\r") // a part of a line keeps no other line in memory
			if len(line) < 2 || line[1] != '=' || strings.ContainsFunc(line, isControl) {
				yield("", fault("a line that is none"))
				return
			}
			if !yield(line, nil) {
				return
			}
		}
	}
}

func isControl(c rune) bool {
	return c < ' ' && c != '\t' || c == 0x7f || c == 0x85 || c == 0x2028 || c == 0x2029
}

// reader reads a description line by line.
type reader struct {
	d     *Description
	media bool            // the media section has begun
	seen  map[string]bool // attributes of this level that may occur once
}

func (r *reader) line(line string) error {
	if strings.HasPrefix(line, "m=") {
		if r.media || !strings.HasPrefix(line, "m=application ") {
			return fault("want one m= line, of an application")
		}
		r.media = true
		clear(r.seen) // what the media section states counts more
		return nil
	}
	attribute, ok := strings.CutPrefix(line, "a=")
	if !ok {
		return nil
	}
	name, value, _ := strings.Cut(attribute, ":")
	switch name {
	case "fingerprint":
		return r.fingerprint(value)
	case "candidate":
		if c, ok := parseCandidate(value); ok && len(r.d.Candidates) < maxCandidates {
			r.d.Candidates = append(r.d.Candidates, c)
		}
		return nil
	case "ice-ufrag", "ice-pwd", "ice-lite", "setup", "identity", "max-message-size", "sctp-port":
		if r.seen[name] {
			return fault(name + " twice") // programs do not agree on which counts
		}
		r.seen[name] = true
		return r.attribute(name, value)
	}
	return nil
}

func (r *reader) attribute(name, value string) (err error) {
	switch d := r.d; name {
	case "ice-ufrag":
		d.Ufrag = value
	case "ice-pwd":
		d.Password = value
	case "ice-lite":
		d.Lite = true
	case "setup":
		d.Setup = value
	case "identity":
		d.Identity, _, _ = strings.Cut(value, " ") // extensions may follow
	case "max-message-size":
		d.MaxMessageSize, err = number(value, 31)
	case "sctp-port":
		d.SCTPPort, err = number(value, 16)
	}
	return err
}

func number(text string, bits int) (int, error) {
	n, err := strconv.ParseUint(text, 10, bits)
	if err != nil {
		return 0, fault("a number that is none")
	}
	return int(n), nil
}

func (r *reader) fingerprint(value string) error {
	algorithm, digest, ok := strings.Cut(value, " ")
	if !ok || len(r.d.Fingerprints) == maxFingerprints {
		return fault("fingerprints")
	}
	r.d.Fingerprints = append(r.d.Fingerprints, Fingerprint{algorithm, digest})
	return nil
}

// parseCandidate reads "foundation component transport priority address port typ type", as RFC 8839 has it.
func parseCandidate(value string) (c Candidate, ok bool) {
	fields := strings.Fields(value)
	if len(fields) < 8 || fields[6] != "typ" {
		return c, false
	}
	component, err1 := strconv.ParseUint(fields[1], 10, 8)
	_, err2 := strconv.ParseUint(fields[3], 10, 32) // its priority
	port, err3 := strconv.ParseUint(fields[5], 10, 16)
	c = Candidate{Component: int(component), UDP: strings.EqualFold(fields[2], "udp"), Port: uint16(port)}
	if addr, err := netip.ParseAddr(fields[4]); err == nil && addr.Zone() == "" {
		c.Address = netip.AddrPortFrom(addr.Unmap(), c.Port)
	}
	return c, errors.Join(err1, err2, err3) == nil
}

// Own is a description that this program writes about itself.
type Own struct {
	Ufrag, Password string
	Lite            bool
	Setup           string // see Description
	Fingerprints    []Fingerprint
	Identity        Identity
	Candidates      []netip.AddrPort // the first is preferred
	Session         uint64           // a number that differs from others
}

// Text returns the description.
func (o *Own) Text() []byte {
	b := fmt.Appendf(nil, "v=0\r\no=- %d 2 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\n", o.Session>>1) // signed for some readers
	b = append(b, "a=group:BUNDLE 0\r\na=msid-semantic: WMS\r\n"...)
	if o.Lite {
		b = append(b, "a=ice-lite\r\n"...)
	}
	b = fmt.Appendf(b, "a=identity:%s\r\n", o.Identity.Text())
	b = append(b, "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\n"...)
	b = fmt.Appendf(b, "a=ice-ufrag:%s\r\na=ice-pwd:%s\r\n", o.Ufrag, o.Password)
	for _, f := range o.Fingerprints {
		b = fmt.Appendf(b, "a=fingerprint:%s %s\r\n", f.Algorithm, f.Digest)
	}
	b = fmt.Appendf(b, "a=setup:%s\r\na=mid:0\r\na=sctp-port:%d\r\na=max-message-size:%d\r\n",
		o.Setup, SCTPPort, MaxFragment)
	return appendCandidates(b, o.Candidates)
}

// SCTPPort is the port of both ends.
const SCTPPort = 5000

func appendCandidates(b []byte, addresses []netip.AddrPort) []byte {
	for i, a := range addresses {
		b = fmt.Appendf(b, "a=candidate:%d 1 udp %d %s %d typ host"+lineEnd,
			i+1, hostPriority-i*nextPriority, a.Addr().Unmap(), a.Port())
	}
	return append(b, "a=end-of-candidates"+lineEnd...)
}

// Errors of Target.
var (
	ErrNoCandidate = errors.New("the answer has no UDP candidate that can be used")
	ErrThirdParty  = errors.New("the answer names an address that is not the server's")
)

// Target returns the address to which a server's answer sends its client. It is always an address of the server: a
// hostile answer must not aim the edge's datagrams at others. If the server stands behind NAT or in a container, it
// knows only its inner address: with anyAddress, the port of the best candidate counts, and its address does not.
func (d *Description) Target(server netip.Addr, anyAddress bool) (netip.AddrPort, error) {
	server = server.Unmap()
	var named netip.AddrPort // the first address that is not the server's
	var port uint16          // of the best candidate; one of the server's family is better than others
	ofFamily := false
	for _, c := range d.Candidates {
		if c.Component != 1 || !c.UDP || c.Port == 0 {
			continue
		}
		addr := c.Address.Addr()
		if addr == server && addr.IsValid() {
			return c.Address, nil
		}
		if !named.IsValid() {
			named = c.Address
		}
		if fits := addr.IsValid() && addr.Is4() == server.Is4(); port == 0 || fits && !ofFamily {
			port, ofFamily = c.Port, fits
		}
	}
	switch {
	case port == 0:
		return netip.AddrPort{}, ErrNoCandidate
	case anyAddress:
		return netip.AddrPortFrom(server, port), nil
	case !named.IsValid():
		return netip.AddrPort{}, ErrNoCandidate
	}
	return netip.AddrPort{}, fmt.Errorf("%w: %s", ErrThirdParty, named)
}

// Priorities of host candidates, RFC 8445: the first is preferred.
const (
	hostPriority = 126<<24 | 0xffff<<8 | 255
	nextPriority = 1 << 8
)

const lineEnd = "\r\n"

// Rewrite returns a description without the addresses of its author, and with these addresses as the only candidates.
// All other lines stay byte for byte, in their order: the identity signs the fingerprints, and ICE's credentials are
// the peers' own. Without addresses, the peer that reads the description must wait for checks. Lines end in CRLF, and
// no empty line follows. Errors wrap ErrDescription.
//
// The addresses of an author stand in its candidates, c=, o=, m= and a=rtcp. A port of 0 in m= stays: it refuses the
// medium.
func Rewrite(text []byte, addresses []netip.AddrPort) ([]byte, error) {
	out := make([]byte, 0, len(text)+100*len(addresses))
	for line, err := range lines(text) {
		if err != nil {
			return nil, err
		}
		if line, err = rewritten(line); err != nil {
			return nil, err
		}
		if line != "" {
			out = append(append(out, line...), lineEnd...)
		}
	}
	return appendCandidates(out, addresses), nil
}

// rewritten returns what replaces a line, or nothing.
func rewritten(line string) (string, error) {
	switch {
	case strings.HasPrefix(line, "c="):
		return "c=IN IP4 0.0.0.0", nil
	case strings.HasPrefix(line, "o="):
		fields := strings.Split(line, " ") // o=user session version IN IP4 address
		if len(fields) != 6 {
			return "", fault("o=")
		}
		return strings.Join(fields[:3], " ") + " IN IP4 0.0.0.0", nil
	case strings.HasPrefix(line, "m="):
		media, rest, _ := strings.Cut(line, " ")
		port, rest, ok := strings.Cut(rest, " ")
		if !ok {
			return "", fault("m=")
		}
		if port != "0" {
			port = "9"
		}
		return media + " " + port + " " + rest, nil
	}
	for _, name := range []string{"candidate:", "end-of-candidates", "remote-candidates:", "rtcp:"} {
		if strings.HasPrefix(line, "a="+name) {
			return "", nil
		}
	}
	return line, nil
}
