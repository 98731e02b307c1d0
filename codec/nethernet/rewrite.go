package nethernet

import (
	"net/netip"
	"strings"
)

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
