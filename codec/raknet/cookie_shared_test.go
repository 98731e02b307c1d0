package raknet

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/testkit/allocs"
)

// TestCookieHash compares with the test vectors of SipHash's reference implementation, as far as the hash is the same.
// Their key and messages count from 0. TestSharedCookies has longer ones.
func TestCookieHash(t *testing.T) {
	const k0, k1 = 0x0706050403020100, 0x0f0e0d0c0b0a0908
	message := make([]byte, 7)
	for i := range message {
		message[i] = byte(i)
	}
	for n, want := range []uint64{
		0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a, 0x85676696d7fb7e2d, 0xcf2794e0277187b7,
		0x18765564cd99a68d, 0xcbc9466e58fee3ce, 0xab0200f58b01d137,
	} {
		if got := cookieHash(k0, k1, message[:n]); got != want {
			t.Errorf("of %d bytes: %#x, want %#x", n, got, want)
		}
	}
}

// countingSecret returns the secret of CloudburstMC's own tests: 1 to 32.
func countingSecret() (secret [32]byte) {
	for i := range secret {
		secret[i] = byte(i + 1)
	}
	return secret
}

// TestSharedCookies compares with the results of org.cloudburstmc.netty.util.SipHash (2026) in Java.
func TestSharedCookies(t *testing.T) {
	c := newSharedCookies(countingSecret())
	for _, v := range []struct {
		ms      int64
		from    string
		version uint8
		want    uint32
	}{
		{0, "127.0.0.1:40006", 6, 0xf55a7305},
		{599999, "127.0.0.1:40011", 11, 0x1c44a59a},
		{600000, "127.0.0.1:40011", 11, 0xc0b1a3aa},
		{1764000000000, "192.0.2.1:40011", 11, 0xaaabe20a},
		{1795262399999, "192.0.2.1:40006", 6, 0xc00a5df5},
		{0, "[2001:db8::7]:40011", 11, 0x7518620a},
		{1764000000000, "[2001:db8::7]:40006", 6, 0x6a143a05},
		{1795262399999, "[2001:db8::7]:40011", 11, 0xc28274fa},
	} {
		from, at := netip.MustParseAddrPort(v.from), time.UnixMilli(v.ms)
		if got := c.give(at, from, v.version); got != v.want {
			t.Errorf("%s at %d: %#08x, want %#08x", from, v.ms, got, v.want)
		}
		mapped := netip.AddrPortFrom(netip.AddrFrom16(from.Addr().As16()), from.Port())
		if c.give(at, mapped, v.version) != v.want {
			t.Errorf("%s at %d differs when it comes by an IPv6 socket", from, v.ms)
		}
		if got := versionOf(v.want); got != v.version {
			t.Errorf("%#08x is of version %d, want %d", v.want, got, v.version)
		}
	}
}

func TestSharedCookiesGrowOld(t *testing.T) {
	c := newSharedCookies(countingSecret())
	other := netip.AddrPortFrom(linkClient.Addr(), linkClient.Port()+1)
	lateInEpoch := linkStart.Add(9*time.Minute + 50*time.Second)
	for _, given := range []time.Time{linkStart, lateInEpoch} {
		cookie := c.give(given, linkClient, 11)
		for _, step := range []struct {
			after time.Duration
			from  netip.AddrPort
			want  bool
		}{
			{0, linkClient, true},
			{time.Minute, linkClient, true},
			{2 * time.Minute, linkClient, false},
			{-time.Minute, linkClient, false},
			{0, other, false},
			{16 * time.Minute, linkClient, false}, // the minute is the same, the epoch is not
		} {
			if got := c.check(given.Add(step.after), step.from, cookie); got != step.want {
				t.Errorf("%v later from %v: %v, want %v", step.after, step.from, got, step.want)
			}
		}
		if c.check(given, linkClient, cookie^0x100) || c.check(given, linkClient, cookie^1) {
			t.Error("a cookie with a bit changed is good")
		}
	}
	if n := allocs.PerRun(100, func() { c.check(linkStart, linkClient, c.give(linkStart, linkClient, 11)) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestOffloadedServer ignores first requests, and accepts second ones by their cookies.
func TestOffloadedServer(t *testing.T) {
	secret := countingSecret()
	good := newSharedCookies(secret).give(linkStart, linkClient, 11)
	for _, test := range []struct {
		mode   CookieMode
		what   string
		cookie uint32
		after  time.Duration
		ok     bool
	}{
		{CookiesOffloaded, "of the right age", good, 0, true},
		{CookiesOffloaded, "of the right age, made up", good ^ 0xabcdef00, time.Minute, true},
		{CookiesOffloaded, "too old", good, 2 * time.Minute, false},
		{CookiesOffloadedPSK, "good", good, time.Minute, true},
		{CookiesOffloadedPSK, "made up", good ^ 0xabcdef00, 0, false},
		{CookiesOffloadedPSK, "too old", good, 2 * time.Minute, false},
		{CookiesActive, "good", good, time.Minute, true},
		{CookiesActive, "made up", good ^ 0xabcdef00, 0, false},
		{CookiesActive, "private, of a newcomer", privateCookie(0), 0, false},
		{CookiesActive, "private, of a connection's client", privateCookie(1), 0, true},
	} {
		t.Run(fmt.Sprintf("%d/%s", test.mode, test.what), func(t *testing.T) {
			p := New(Options{Cookies: test.mode, CookieSecret: secret})
			conn, _, err := p.Accept(linkStart.Add(test.after), linkClient, requestWith(p, test.cookie, 7), nil)
			if (conn != nil) != test.ok {
				t.Fatalf("connection: %v, %v; want %v", conn != nil, err, test.ok)
			}
			if !test.ok && !errors.Is(err, codec.ErrRefused) {
				t.Errorf("%v, want ErrRefused", err)
			}
			if !test.mode.offloaded() {
				return
			}
			first := openConnectionRequest1{version: 11, length: 1464}
			_, reply, err := p.Accept(linkStart, linkClient, first.append(nil), nil)
			if len(reply) > 0 || !errors.Is(err, codec.ErrRefused) {
				t.Errorf("a first request is answered by %x, %v; want nothing", reply, err)
			}
		})
	}
}

func privateCookie(round uint8) uint32 {
	p := New(Options{})
	return p.cookies.give(linkStart, linkClient, origin{version: 3, round: round})
}

// place is a client's address as an Addresser.
type place netip.AddrPort

func (p place) Addr() netip.AddrPort { return netip.AddrPort(p) }

// TestDialOffloaded connects to servers that leave first requests to us.
func TestDialOffloaded(t *testing.T) {
	for _, mode := range []CookieMode{CookiesOffloaded, CookiesOffloadedPSK} {
		p := New(Options{Cookies: mode, CookieSecret: countingSecret(), DialVersion: 11})
		l := newLinkOf(t, p)
		l.client = p.Dial(l.now, linkServer, codec.Hello{Identity: 77, From: place(linkClient)}).(*Conn)
		lost := 3
		l.drop = func(toServer bool, _ []byte) bool { lost--; return toServer && lost >= 0 }
		l.wait(2 * time.Second) // each attempt has a cookie of its own time
		connect(t, l)
		if !l.server.longList || l.server.sender.MTU != offloadedMTU || l.client.sender.MTU != offloadedMTU {
			t.Errorf("%d: long list %v, MTU %d and %d; want that of version 11, and %d", mode, l.server.longList,
				l.client.sender.MTU, l.server.sender.MTU, offloadedMTU)
		}
	}
}
