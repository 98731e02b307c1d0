package relay

import (
	"time"

	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/proxyproto"
	"tidegate/internal/record"
	"tidegate/proxy/relay/saved"
	"tidegate/ratelimit"
)

func saveProxy(f *trustedProxy) *saved.Proxy {
	if f == nil {
		return nil
	}
	return &saved.Proxy{
		Addr: f.addr, Format: f.header.Format, Local: f.header.Local, Client: f.header.Client, Proxy: f.header.Proxy,
	}
}

func restoreProxy(v *saved.Proxy) *trustedProxy {
	if v == nil {
		return nil
	}
	return &trustedProxy{v.Addr, proxyproto.Header{
		Format: v.Format, Local: v.Local, Client: v.Client, Proxy: v.Proxy,
	}}
}

func savePreamble(p *preamble) *saved.Preamble {
	if p == nil {
		return nil
	}
	return &saved.Preamble{Header: p.header, When: uint8(p.when)}
}

func restorePreamble(v *saved.Preamble) *preamble {
	if v == nil {
		return nil
	}
	return &preamble{v.Header, policy.Headers(v.When)}
}

// momentOfBucket returns the time until which a bucket is used up; zero means that it is full. start is the start of
// the bucket's time.
func momentOfBucket(now, start time.Time, b ratelimit.Bucket) record.Moment {
	paid := start.Add(time.Duration(b))
	if !paid.After(now) {
		return 0
	}
	return record.MomentOf(now, paid)
}

// maxUsedUp bounds the time until which a bucket of a record is used up.
const maxUsedUp = time.Hour

func bucketOf(now, start time.Time, m record.Moment) ratelimit.Bucket {
	paid := m.Time(now)
	if paid.IsZero() || paid.After(now.Add(maxUsedUp)) {
		return 0
	}
	return ratelimit.Bucket(paid.Sub(start))
}

// isOwn reports whether a session's socket to its client belongs to it alone.
func (s *link) isOwn(face netio.Socket) bool { return netio.ListenerOf(face) != s.listener.socket }
