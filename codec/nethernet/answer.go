package nethernet

import (
	"fmt"
	"net/netip"
)

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
