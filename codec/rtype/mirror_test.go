package rtype

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// replayText returns the instructions of a replay of the mirror, in order, each once.
func (m *mirror) replayText(t testing.TB) (list []string) {
	t.Helper()
	s := &server{link: newLink(&Options{Dialect: Game32, MaxQueued: 1 << 30}, start), mirror: *m}
	s.mirror.forgetSent()
	r := replay{whole: true}
	for !r.portion(s) {
	}
	for d, ok := s.out.next(nil); ok; d, ok = s.out.next(nil) {
		list = append(list, fmt.Sprintf("%x", d))
	}
	return list
}

func TestMirrorFollows(t *testing.T) {
	m := mirror{max: defaultWorld}
	for _, in := range []instruction{
		{op: create, entity: 1},
		{op: create, entity: 2},
		{op: create, entity: 3},
		{op: attach, entity: 1, component: 5},
		{op: attach, entity: 1, component: 6},
		{op: attach, entity: 1, component: 7},
		{op: attach, entity: 1, component: 7},
		{op: update, entity: 1, component: 5, data: []byte{1}},
		{op: update, entity: 1, component: 7, data: []byte{2}},
		{op: update, entity: 1, component: 7, data: []byte{3, 4}},
		{op: detach, entity: 1, component: 5},
		{op: detach, entity: 1, component: 9},
		{op: attach, entity: 1, component: 8}, // with its default data
		{op: create, entity: 1},               // changes nothing
		{op: attach, entity: 3, component: 5},
		{op: remove, entity: 3},
		{op: update, entity: 2, component: 5, data: []byte{9}}, // attaches
		{op: attach, entity: 2, component: 6},
		{op: update, entity: 2, component: 6, data: []byte{9}},
		{op: attach, entity: 2, component: 6}, // resets the data
		{op: attach, entity: 8, component: 5}, // the entity does not exist
		{op: remove, entity: 8},
		{op: nextFrame},
	} {
		m.apply(&in)
	}
	want := []string{
		"0000000001", "0000000002", "02000000010006", "02000000010007", "02000000010008", "02000000020005", "02000000020006",
		"030000000100070304", "0300000002000509",
	}
	if got := m.replayText(t); !slices.Equal(got, want) {
		t.Errorf("replayed %q, want %q", got, want)
	}
	if m.has(3) || !m.has(1) || m.hasComponent(1, 5) || !m.hasComponent(1, 7) || m.hasComponent(3, 5) {
		t.Error("wrong entities or components exist")
	}
}

// TestMirrorReusesMemory: data of one component never shows in another that reuses its memory.
func TestMirrorReusesMemory(t *testing.T) {
	m := mirror{max: defaultWorld}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 20_000 {
		in := instruction{
			op:        opcode(rng.IntN(5)),
			entity:    uint32(rng.IntN(6)),
			component: uint16(rng.IntN(4)),
		}
		if in.op == update {
			in.data = bytes.Repeat([]byte{byte(in.entity)<<4 | byte(in.component)}, rng.IntN(9))
		}
		m.apply(&in)
		if i%50 == 0 {
			checkOwnData(t, &m)
		}
	}
	if m.bytes > 6*(slotCost+4*componentCost+4*4*16) {
		t.Errorf("%d bytes after many changes of a small world", m.bytes)
	}
}

// checkOwnData checks that all data belong to their entity and component.
func checkOwnData(t *testing.T, m *mirror) {
	t.Helper()
	for _, s := range m.slots {
		for _, c := range s.components {
			want := byte(s.entity)<<4 | byte(c.id)
			if c.known && len(bytes.Trim(c.data, string([]byte{want}))) > 0 {
				t.Fatalf("entity %d, component %d: data %x", s.entity, c.id, c.data)
			}
		}
	}
}

// TestMirrorIsBounded: a server that creates without end costs no more memory than the bound. The existing state stays
// correct.
func TestMirrorIsBounded(t *testing.T) {
	const limit = 10 << 10
	m := mirror{max: limit}
	m.apply(&instruction{op: create, entity: 1})
	m.apply(&instruction{op: attach, entity: 1, component: 1})
	m.apply(&instruction{op: update, entity: 1, component: 1, data: []byte{1}})
	for i := range uint32(1000) {
		m.apply(&instruction{op: create, entity: i})
		m.apply(&instruction{op: attach, entity: i, component: uint16(i)})
		m.apply(&instruction{op: update, entity: i, component: uint16(i), data: make([]byte, 100)})
	}
	if m.bytes > limit || m.bytes < limit/2 || m.has(999) {
		t.Errorf("%d bytes of at most %d", m.bytes, limit)
	}
	m.apply(&instruction{op: update, entity: 1, component: 1, data: make([]byte, limit)})
	for _, said := range m.replayText(t) {
		if bytes.HasPrefix([]byte(said), []byte("03000000010001")) {
			t.Errorf("an update over the bound leaves the earlier one: %s", said)
		}
	}
	for i := range uint32(1000) {
		m.apply(&instruction{op: remove, entity: i})
	}
	m.apply(&instruction{op: create, entity: 5000})
	if !m.has(5000) || m.bytes > limit {
		t.Error("memory of removed entities is not used again")
	}
}
