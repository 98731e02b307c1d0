package bridge

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/enet"
	"tidegate/codec/raknet"
	"tidegate/codec/riptide"
	"tidegate/codec/rudp"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/allocs"
	"tidegate/proxy/stats"
)

func form(t testing.TB, text string) policy.Form {
	t.Helper()
	f, err := policy.ParseForm(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// turned returns what a message becomes on its way.
func turned(d *Direction, m codec.Message) (codec.Message, bool) {
	way := d.Way(&m)
	if way == nil || way.drops {
		return m, false
	}
	way.turn(nil, &m)
	return m, true
}

// TestRowsChangeMessages carries messages by rows of a Riptide game on a RakNet server.
func TestRowsChangeMessages(t *testing.T) {
	unreliable := codec.Unreliable
	o := &Options{Unmapped: policy.UnmappedDrops, Map: []Row{
		{Client: form(t, "7"), Server: form(t, "0x90:u8"), Channel: 3},
		{Client: form(t, "100-199"), Server: form(t, "0x91 0-99:u16be"), Channel: -1},
		{Client: form(t, "8"), Server: form(t, "0x91 1"), Channel: -1},
		{Client: form(t, "9"), Server: form(t, "0x92:u8"), From: policy.FromClient, Mode: &unreliable, Channel: -1},
		{Client: form(t, "10"), Server: form(t, "0x92:u8"), From: policy.FromUpstream, Mode: &unreliable, Channel: -1},
	}}
	b := New(riptide.New(riptide.Options{}), raknet.New(raknet.Options{}), o)
	up := func(id uint16) codec.Message {
		return codec.Message{ID: id, HasID: true, Mode: codec.Reliable, Payload: []byte("hi"), Pad: 3}
	}
	down := func(payload string) codec.Message {
		return codec.Message{Mode: codec.ReliableOrdered, Channel: 5, Payload: []byte(payload)}
	}
	for _, c := range []struct {
		d        *Direction
		m        codec.Message
		id       uint16
		payload  string
		mode     codec.Mode
		channel  uint8
		hasNoRow bool
	}{
		{&b.ToServer, up(7), 7, "\x90hi", codec.Reliable, 3, false},
		{&b.ToServer, up(142), 142, "\x91\x00\x2ahi", codec.Reliable, 0, false},
		{&b.ToServer, up(9), 9, "\x92hi", codec.Unreliable, 0, false},
		{d: &b.ToServer, m: up(10), hasNoRow: true},
		{d: &b.ToServer, m: up(200), hasNoRow: true},
		{d: &b.ToServer, m: codec.Message{Payload: []byte("\x90hi")}, hasNoRow: true}, // notify
		{&b.ToClient, down("\x90hi"), 7, "hi", codec.ReliableOrdered, 5, false},
		{&b.ToClient, down("\x90"), 7, "", codec.ReliableOrdered, 5, false},
		{&b.ToClient, down("\x91\x00\x63hi"), 199, "hi", codec.ReliableOrdered, 5, false},
		{&b.ToClient, down("\x91\x01\x63hi"), 8, "\x63hi", codec.ReliableOrdered, 5, false}, // no number of the longer form
		{&b.ToClient, down("\x92hi"), 10, "hi", codec.Unreliable, 5, false},
		{d: &b.ToClient, m: down("\x91"), hasNoRow: true},
		{d: &b.ToClient, m: down(""), hasNoRow: true},
		{d: &b.ToClient, m: down("\x86\x07\x00hi"), hasNoRow: true},
	} {
		got, ok := turned(c.d, c.m)
		switch {
		case ok == c.hasNoRow:
			t.Errorf("%x, ID %d: has a row: %v", c.m.Payload, c.m.ID, ok)
		case c.hasNoRow:
		case string(got.Payload) != c.payload || got.HasID == c.m.HasID || got.HasID && got.ID != c.id || got.Pad != 0 ||
			got.Mode != c.mode || got.Channel != c.channel:
			t.Errorf("%x, ID %d: %+v, want %x, ID %d", c.m.Payload, c.m.ID, got, c.payload, c.id)
		}
	}
}

// TestUnmapped drops messages without a row, or ends the session. For pairs of protocols without rows nothing changes.
func TestUnmapped(t *testing.T) {
	for rule, want := range map[policy.Unmapped]Failure{
		policy.UnmappedPasses: {Why: stats.DropHeld}, // no server takes it
		policy.UnmappedDrops:  {Why: stats.DropUndeclared}, policy.UnmappedEnds: {Why: stats.DropUndeclared, Ends: true},
	} {
		o := &Options{Unmapped: rule, Queue: 1 << 20, Map: []Row{{Client: form(t, "7"), Server: form(t, "0x90:u8")}}}
		b := New(riptide.New(riptide.Options{}), raknet.New(raknet.Options{}), o)
		c := NewCarrier(new(stats.Counters))
		m := codec.Message{ID: 8, HasID: true, Payload: []byte("hi")}
		c.Carry(time.Unix(1, 0), &Sender{Away: true}, &b.ToServer, &m, b.ToServer.Way(&m))
		if f := c.Failure(); f.Why != want.Why || f.Ends != want.Ends || c.HasFailed() {
			t.Errorf("%v: %+v", rule, f)
		}
		plain := New(raknet.New(raknet.Options{}), raknet.New(raknet.Options{}), o)
		if way := plain.ToServer.Way(&m); way != nil {
			t.Errorf("%v: no row is for RakNet players, and %+v", rule, way)
		}
	}
}

// sides are protocols with all places of an ID, and forms that their messages may have.
var sides = []struct {
	protocol codec.Protocol
	forms    []string
}{
	{riptide.New(riptide.Options{}), []string{"7", "0-199", "65000-65199", "1000-1199"}},
	{raknet.New(raknet.Options{}), []string{"0x90:u8", "0x91 0-199", "0x92 500-699:u16le", "0x92 0xff 0-199:u32be"}},
	{enet.New(enet.Options{}), []string{"7:u8", "0-199:u8", "256-455:u16be", "0-199:u32le", "1 2 0-199:u16le"}},
	{rudp.New(rudp.Options{}), []string{"1:u16be", "0-199:u16be", "9:u16le 0-199"}},
}

// roundTrip carries a message there and back, and reports whether it had a row. It fails if it comes back changed.
func roundTrip(t *testing.T, b *Bridge, m codec.Message) bool {
	t.Helper()
	there, ok := turned(&b.ToServer, m)
	if !ok {
		return false
	}
	back, ok := turned(&b.ToClient, there)
	if !ok || !bytes.Equal(back.Payload, m.Payload) || back.HasID != m.HasID || m.HasID && back.ID != m.ID {
		t.Fatalf("%+v became %+v and came back as %+v, %v", m, there, back, ok)
	}
	return true
}

// TestRowsAreReversible carries messages of every pair of protocols and forms there and back.
func TestRowsAreReversible(t *testing.T) {
	rng := rand.New(rand.NewPCG(39, 5))
	carried := 0
	for _, client := range sides {
		for _, server := range sides {
			for _, near := range client.forms {
				for _, far := range server.forms {
					row := Row{Client: form(t, near), Server: form(t, far), Channel: -1}
					if row.Client.Count() != row.Server.Count() {
						continue
					}
					b := New(client.protocol, server.protocol, &Options{Map: []Row{row}})
					for n := row.Client.Low; n <= row.Client.High; n++ {
						m := codec.Message{Payload: make([]byte, rng.IntN(20))}
						for i := range m.Payload {
							m.Payload[i] = byte(rng.Uint32())
						}
						if row.Client.IsAlone() {
							m.ID, m.HasID = uint16(n), true
						} else {
							m.Payload = append(row.Client.Append(nil, n), m.Payload...)
						}
						if !roundTrip(t, b, m) {
							t.Fatalf("%s to %s: no row for %d", near, far, n)
						}
						carried++
					}
				}
			}
		}
	}
	if carried < 10_000 {
		t.Errorf("only %d messages", carried)
	}
}

// FuzzRows carries any message by any two rows. What crosses comes back as it was.
func FuzzRows(f *testing.F) {
	f.Add("7", "0x90:u8", "100-199", "0x91 0-99:u16be", uint16(142), []byte("\x91\x00\x2ahi"), true)
	f.Add("0x90:u8", "7:u16le", "0x91 0-9", "10-19:u32be", uint16(0), []byte("\x91\x03hi"), false)
	f.Fuzz(func(t *testing.T, c1, s1, c2, s2 string, id uint16, payload []byte, hasID bool) {
		var rows []Row
		for _, texts := range [][2]string{{c1, s1}, {c2, s2}} {
			c, err := policy.ParseForm(texts[0])
			s, other := policy.ParseForm(texts[1])
			if err != nil || other != nil || c.Count() != s.Count() || c.Count() > 1000 {
				return
			}
			rows = append(rows, Row{Client: c, Server: s, Channel: -1})
		}
		if rows[0].Client.Meets(&rows[1].Client) || rows[0].Server.Meets(&rows[1].Server) {
			return // refused by the configuration
		}
		for _, client := range sides[:3] {
			for _, server := range sides[:3] {
				b := New(client.protocol, server.protocol, &Options{Map: rows})
				m := codec.Message{Payload: payload}
				if client.protocol.Spec().IDs == codec.IDBeside {
					m.ID, m.HasID = id, hasID
				}
				there, ok := turned(&b.ToServer, m)
				if !ok {
					continue
				}
				// A beginning may be longer than that of another row, which then takes the message on its way back.
				if way, back := b.ToClient.Way(&there), b.ToServer.Way(&m); way != nil && way.far == back.near {
					roundTrip(t, b, m)
				}
			}
		}
	})
}

// TestRowsAllocateNothing carries messages both ways.
func TestRowsAllocateNothing(t *testing.T) {
	step := rowsStep(t, 256)
	step()
	if n := allocs.PerRun(200, step); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// rowsStep returns a function that finds and turns a message of a Riptide game and one of its RakNet server.
func rowsStep(t testing.TB, rows int) func() {
	o := &Options{}
	for i := range rows {
		o.Map = append(o.Map, Row{
			Client: policy.Form{Low: uint32(i), High: uint32(i)}, Channel: -1,
			Server: policy.Form{Fixed: "\x90", Low: uint32(i), High: uint32(i), Width: 2},
		})
	}
	b := New(riptide.New(riptide.Options{}), raknet.New(raknet.Options{}), o)
	scratch := make([]byte, 0, 100)
	var payload [50]byte
	turn := func(d *Direction, m codec.Message) {
		way := d.Way(&m)
		if way == nil {
			t.Fatal("no row")
		}
		scratch = way.turn(scratch[:0], &m)[:0]
	}
	number := 0
	return func() {
		number = (number + 1) % rows
		payload[0], payload[1], payload[2] = 0x90, byte(number), byte(number>>8)
		turn(&b.ToServer, codec.Message{ID: uint16(number), HasID: true, Payload: payload[:]})
		turn(&b.ToClient, codec.Message{Payload: payload[:]})
	}
}

// BenchmarkRows measures one message each way.
func BenchmarkRows(b *testing.B) {
	step := rowsStep(b, 256)
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
}
