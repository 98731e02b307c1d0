package nethernet

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"hash/crc32"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"tidegate/internal/testkit/allocs"
)

// A request of pion, and the server's credentials of that join.
const (
	firstCheck = "0001005c2112a44251fb17bf4db90942f3f850d30006002173556e66475162646e7a695a484977413a514f69534350466163" +
		"6c744e75527159000000802a0008fefd6945145e7e8b002400047effffff00080014811512092cf30fb32a2ed4a598624a3b43e10a55" +
		"80280004493b0dc4"
	serverUfrag = "sUnfGQbdnziZHIwA"
	clientUfrag = "QOiSCPFacltNuRqY"
	serverPwd   = "KMseCMNEaXtRlUHfxyJaoxUYslHqDvKm"
)

// TestRecordedBindings reads the STUN messages of all stacks, and verifies each with the password of its receiver, or
// of its request's receiver.
func TestRecordedBindings(t *testing.T) {
	g := NewIntegrity()
	for _, stack := range stacks {
		r := recording(t, stack)
		offer, answer := described(t, r.Offer), described(t, r.Answer)
		requests, nominations := 0, 0
		for i, d := range r.Datagrams {
			datagram := unhex(t, d.Hex)
			if KindOf(datagram) != STUN {
				continue
			}
			var b Binding
			if err := b.Parse(datagram); err != nil || !b.IsWhole() {
				t.Fatalf("%s, datagram %d: %v, whole %v", stack, i, err, b.IsWhole())
			}
			from, to := offer, answer
			if d.FromServer {
				from, to = answer, offer
			}
			switch b.Class {
			case Request:
				requests++
				if b.Nominates {
					nominations++
				}
				wantRole := Controlling
				if d.FromServer {
					wantRole = Controlled
				}
				if !b.Names(to.Ufrag, from.Ufrag) || b.Names(from.Ufrag, to.Ufrag) || b.Role != wantRole || b.Priority == 0 {
					t.Errorf("%s, datagram %d: %+v", stack, i, b)
				}
			case Success:
				from, to = to, from
				if b.Username != nil || !b.Mapped.Addr().Is4() {
					t.Errorf("%s, datagram %d: %+v", stack, i, b)
				}
			default:
				t.Errorf("%s, datagram %d: class %x", stack, i, b.Class)
			}
			if !g.Verify(&b, to.Password) || g.Verify(&b, from.Password) || g.Verify(&b, "") {
				t.Errorf("%s, datagram %d: the integrity does not belong to its receiver alone", stack, i)
			}
		}
		if requests < 2 || nominations == 0 {
			t.Errorf("%s: %d requests, %d nominations", stack, requests, nominations)
		}
	}
}

// TestDamagedBindings changes each bit of a request. No changed one gets through the three steps.
func TestDamagedBindings(t *testing.T) {
	g, whole := NewIntegrity(), unhex(t, firstCheck)
	admits := func(d []byte) bool {
		var b Binding
		return b.Parse(d) == nil && b.Class == Request && b.Names(serverUfrag, clientUfrag) && b.IsWhole() &&
			g.Verify(&b, serverPwd)
	}
	if !admits(whole) {
		t.Fatal("the request itself is refused")
	}
	for bit := range 8 * len(whole) {
		d := bytes.Clone(whole)
		d[bit/8] ^= 1 << (bit % 8)
		if admits(d) {
			t.Errorf("bit %d changed, and admitted", bit)
		}
	}
	for n := range len(whole) {
		if admits(whole[:n]) {
			t.Errorf("admitted after %d of %d bytes", n, len(whole))
		}
	}
	if admits(append(bytes.Clone(whole), 0, 0, 0, 0)) {
		t.Error("admitted with bytes behind the end")
	}
}

// TestStrictBindings makes messages whose integrity and fingerprint are right, and whose layout is not.
func TestStrictBindings(t *testing.T) {
	user, tie := attr(attrUsername, serverUfrag+":"+clientUfrag), "12345678"
	for _, test := range []struct {
		name  string
		attrs []string // "integrity" and "fingerprint" are computed
		want  bool
	}{
		{"as usual", []string{user, "integrity", "fingerprint"}, true},
		{"unknown ones first", []string{attr(0xc057, "abcd"), attr(0x8022, "agent"), user, "integrity", "fingerprint"}, true},
		{"username after integrity", []string{"integrity", user, "fingerprint"}, false},
		{"unknown after integrity", []string{user, "integrity", attr(0xc057, "abcd"), "fingerprint"}, false},
		{"fingerprint first", []string{user, "fingerprint", "integrity"}, false},
		{"two fingerprints", []string{user, "integrity", "fingerprint", "fingerprint"}, false},
		{"two integrities", []string{user, "integrity", "integrity", "fingerprint"}, false},
		{"two usernames", []string{user, user, "integrity", "fingerprint"}, false},
		{"two roles", []string{user, attr(attrControlled, tie), attr(attrControlling, tie), "fingerprint"}, false},
		{"role too short", []string{user, attr(attrControlling, "1234"), "integrity", "fingerprint"}, false},
		{"priority too long", []string{user, attr(attrPriority, "12345678"), "integrity", "fingerprint"}, false},
		{"use-candidate with a value", []string{user, attr(attrUseCandidate, "1234"), "integrity", "fingerprint"}, false},
		{"empty username", []string{attr(attrUsername, ""), "integrity", "fingerprint"}, false},
		{"mapped to family 3", []string{user, attr(attrMapped, "\x00\x03\x11\x22abcd"), "integrity", "fingerprint"}, false},
		{"mapped address too short", []string{user, attr(attrMapped, "\x00\x01\x11"), "integrity", "fingerprint"}, false},
		{"too long", []string{user, attr(0xc057, strings.Repeat("x", maxBinding)), "integrity", "fingerprint"}, false},
		{"an attribute that reaches beyond the end", []string{user, "\xc0\x57\x00\x08abcd"}, false},
	} {
		var b Binding
		d := stunOf(t, test.attrs)
		if err := b.Parse(d); (err == nil) != test.want {
			t.Errorf("%s: %v", test.name, err)
		}
		if test.want && (!b.IsWhole() || !NewIntegrity().Verify(&b, serverPwd)) {
			t.Errorf("%s: not whole, or not verified", test.name)
		}
	}
	for _, kind := range []uint16{0, 0x0002, 0x0003, 0x0110, 0x0200, 0x1101} { // other methods, such as GOOG_PING
		d := stunOf(t, []string{user, "integrity", "fingerprint"})
		be.PutUint16(d, kind)
		var b Binding
		if err := b.Parse(d); err == nil {
			t.Errorf("type %#04x is taken for a Binding", kind)
		}
	}
	if other := (&Binding{Username: []byte("to-from")}); other.Names("to", "from") {
		t.Error("a name without a colon")
	}
	var unsigned Binding
	err := unsigned.Parse(stunOf(t, []string{user}))
	if err != nil || unsigned.IsWhole() || NewIntegrity().Verify(&unsigned, serverPwd) {
		t.Error("a message without integrity and fingerprint is proved", err)
	}
}

func attr(kind uint16, value string) string {
	b := append(appendAttr(nil, kind, len(value)), value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return string(b)
}

// stunOf builds a request by other means than this package.
func stunOf(t *testing.T, attrs []string) []byte {
	t.Helper()
	d := unhex(t, "000100002112a442000102030405060708090a0b")
	for _, a := range attrs {
		switch a {
		case "integrity":
			be.PutUint16(d[2:], uint16(len(d)-20+24))
			h := hmac.New(sha1.New, []byte(serverPwd))
			h.Write(d)
			d = append(d, attr(attrIntegrity, string(h.Sum(nil)))...)
		case "fingerprint":
			be.PutUint16(d[2:], uint16(len(d)-20+8))
			d = append(d, attr(attrFingerprint, string(be.AppendUint32(nil, crc32.ChecksumIEEE(d)^0x5354554e)))...)
		default:
			d = append(d, a...)
		}
	}
	be.PutUint16(d[2:], uint16(len(d)-20))
	return d
}

// TestBuiltBindings builds the recorded messages again, byte for byte, and reads what it builds for other addresses.
func TestBuiltBindings(t *testing.T) {
	g := NewIntegrity()
	check := Check{
		ID: TransactionID(unhex(t, "51fb17bf4db90942f3f850d3")), To: serverUfrag, From: clientUfrag,
		Role: Controlling, TieBreaker: 0xfefd6945145e7e8b, Priority: 0x7effffff,
	}
	if d := g.AppendCheck([]byte("x"), check, serverPwd); !bytes.Equal(d[1:], unhex(t, firstCheck)) {
		t.Errorf("the request is %x", d[1:])
	}
	const success = "0101002c2112a44251fb17bf4db90942f3f850d3002000080001b4eee112a64000080014f0a6474684cf2782519f073f359" +
		"388249433683c802800040133d4e1" // 192.0.2.2:38396
	var b Binding
	if err := b.Parse(unhex(t, success)); err != nil {
		t.Fatal(err)
	}
	if d := g.AppendSuccess(nil, check.ID, b.Mapped, serverPwd); !bytes.Equal(d, unhex(t, success)) {
		t.Errorf("the response to %v is %x", b.Mapped, d)
	}
	for _, at := range []string{"198.51.100.7:1", "[2001:db8::9]:65535", "[::ffff:198.51.100.7]:1"} {
		mapped := netip.MustParseAddrPort(at)
		want := netip.AddrPortFrom(mapped.Addr().Unmap(), mapped.Port())
		d := g.AppendSuccess(nil, check.ID, mapped, strings.Repeat("long", 40))
		if err := b.Parse(d); err != nil || b.Mapped != want || !b.IsWhole() || !g.Verify(&b, strings.Repeat("long", 40)) {
			t.Errorf("%s: %v, %+v", at, err, b)
		}
	}
	if err := b.Parse(g.AppendCheck(nil, check, "")); err != nil || g.Verify(&b, "") {
		t.Error("an empty password proves something", err)
	}
	check.Nominates, check.Role, check.To = true, Controlled, "abcd"
	if err := b.Parse(g.AppendCheck(nil, check, "pwd")); err != nil || !b.Nominates || b.Role != Controlled ||
		!b.Names("abcd", clientUfrag) || b.TieBreaker != check.TieBreaker || b.Priority != check.Priority {
		t.Errorf("%v, %+v", err, b)
	}
}

// TestIntegrityOfAnyPassword compares the HMAC with the standard library's, for passwords around a block.
func TestIntegrityOfAnyPassword(t *testing.T) {
	g, d := NewIntegrity(), unhex(t, firstCheck)
	var b Binding
	if err := b.Parse(d); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 22, 63, 64, 65, 128, 129, 256} {
		password := strings.Repeat("p", n-1) + "q"
		h := hmac.New(sha1.New, []byte(password))
		h.Write(d[:2])
		h.Write([]byte{0, byte(len(d) - 20 - 8)})
		h.Write(d[4 : len(d)-32])
		copy(d[len(d)-28:], h.Sum(nil))
		if !g.Verify(&b, password) || g.Verify(&b, password[1:]) {
			t.Errorf("password of %d bytes", n)
		}
	}
}

// TestBindingAllocs shows that a datagram costs no allocation, admitted or not.
func TestBindingAllocs(t *testing.T) {
	g, d, out := NewIntegrity(), unhex(t, firstCheck), make([]byte, 0, 256)
	var b Binding
	mapped := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:5"), netip.MustParseAddrPort("[2001:db8::1]:5")}
	if n := allocs.PerRun(100, func() {
		if KindOf(d) != STUN || b.Parse(d) != nil || !b.IsWhole() || !g.Verify(&b, serverPwd) {
			t.Fatal("refused")
		}
		for _, m := range mapped {
			out = g.AppendSuccess(out[:0], b.ID, m, serverPwd)
		}
		out = g.AppendCheck(out[:0], Check{ID: b.ID, To: serverUfrag, From: clientUfrag}, serverPwd)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	d[len(d)-20]++
	if n := allocs.PerRun(100, func() {
		if b.Parse(d) != nil || g.Verify(&b, serverPwd) {
			t.Fatal("admitted")
		}
		_ = b.Parse(d[:40])
	}); n != 0 {
		t.Errorf("%v allocations for forged ones", n)
	}
}

// TestKinds tells the recorded datagrams, and those of RakNet, apart.
func TestKinds(t *testing.T) {
	ping := "0100000000000000" + "00" + "00ffff00fefefefefdfdfdfd12345678" + "0102030405060708"
	// A ping whose time begins with STUN's cookie: RakNet's magic bytes decide.
	odd := "010000142112a44200" + "00ffff00fefefefefdfdfdfd12345678" + "0102030405060708"
	for text, want := range map[string]Kind{
		"": Strange, ping: RakNetOffline, odd + "000000": RakNetOffline, ping[:60]: Strange,
		"0500ffff00fefefefefdfdfdfd123456780b0000":   RakNetOffline,
		"0700ffff00fefefefefdfdfdfd1234567800":       RakNetOffline,
		"0500ffff00fefefefefdfdfdfd1234567900":       Strange,
		firstCheck:                                   STUN,
		firstCheck[:len(firstCheck)-8]:               Strange,
		"000100012112a44200010203040506070809000bff": Strange, // 21 bytes
		"840000004001":                               RakNetConnected, "a00001": RakNetConnected, "c00001": RakNetConnected,
		"16fefd": DTLS, "3f00": DTLS, "40": Strange, "13": Strange, "90": Strange, "ff": Strange,
	} {
		if got := KindOf(unhex(t, text)); got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
	for _, stack := range stacks {
		closed := false
		for i, d := range recording(t, stack).Datagrams {
			datagram := unhex(t, d.Hex)
			if k := KindOf(datagram); k != STUN && k != DTLS {
				t.Errorf("%s, datagram %d is %d", stack, i, k)
			}
			closed = closed || MayClose(datagram)
		}
		if want := !slices.Contains([]string{"werift"}, stack); closed != want {
			t.Errorf("%s: an alert at the end: %v", stack, closed)
		}
	}
}

// FuzzBinding: Parse never panics, keeps to its datagram, and reads what this package builds.
func FuzzBinding(f *testing.F) {
	for _, stack := range stacks {
		for _, d := range recording(f, stack).Datagrams {
			f.Add(unhex(f, d.Hex), serverPwd)
		}
	}
	g := NewIntegrity()
	f.Fuzz(func(t *testing.T, datagram []byte, password string) {
		var b Binding
		kept := bytes.Clone(datagram)
		_ = KindOf(datagram)
		err := b.Parse(datagram)
		if err != nil {
			return
		}
		b.IsWhole()
		g.Verify(&b, password)
		if !bytes.Equal(datagram, kept) {
			t.Fatal("the datagram was changed")
		}
		to, from, ok := strings.Cut(string(b.Username), ":")
		if ok && !b.Names(to, from) {
			t.Fatal("the name is not its own")
		}
		if b.Class != Request || !ok || len(b.Username) > 1000 || password == "" {
			return
		}
		c := Check{ID: b.ID, To: to, From: from, Role: b.Role, TieBreaker: b.TieBreaker, Nominates: b.Nominates}
		var again Binding
		if err := again.Parse(g.AppendCheck(nil, c, password)); err != nil || !again.Names(to, from) || !again.IsWhole() ||
			!g.Verify(&again, password) || again.Nominates != b.Nominates {
			t.Fatalf("%v, %+v", err, again)
		}
	})
}

func BenchmarkBinding(b *testing.B) {
	g, d := NewIntegrity(), unhex(b, firstCheck)
	var m Binding
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = m.Parse(d)
		}
	})
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			m.IsWhole()
		}
	})
	b.Run("verify", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			g.Verify(&m, serverPwd)
		}
	})
}
