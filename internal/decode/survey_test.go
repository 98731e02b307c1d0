package decode

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/gopacket/gopacket/layers"
)

// TestTooManyFlows stops the growth of the table and reports records of further conversations. It continues to explain
// the known ones.
func TestTooManyFlows(t *testing.T) {
	table := newTable("riptide-2.2")
	records := func(take func(*record)) {
		for i := range maxFlows + 2 {
			take(&record{flow: fmt.Sprint(i), side: clientSide, data: []byte{2}})
		}
	}
	records(func(r *record) { _ = table.survey(r) })
	table.settle()
	var lost int
	records(func(r *record) {
		if _, meaning := table.explain(r); errors.Is(meaning.fault, errManyFlows) {
			lost++
		}
	})
	if len(table.flows) != maxFlows || lost != 2 {
		t.Errorf("%d conversations are known and %d are not, want %d and 2", len(table.flows), lost, maxFlows)
	}
}

// TestTooManyStreams takes the bytes of further directions as they come, without order.
func TestTooManyStreams(t *testing.T) {
	known := make(streams)
	for i := range 2*maxFlows + 2 {
		r := &record{from: fmt.Sprint(i)}
		known.order(r, &layers.TCP{Seq: 7, BaseLayer: layers.BaseLayer{Payload: []byte{1}}})
		if len(r.data) != 1 || r.missing {
			t.Fatalf("direction %d: %+v", i, r)
		}
	}
	if len(known) != 2*maxFlows {
		t.Errorf("%d directions are known, want %d", len(known), 2*maxFlows)
	}
}

// TestSurveyJudgesTheBeginning keeps the protocol after maxSurveyed datagrams.
func TestSurveyJudgesTheBeginning(t *testing.T) {
	table := newTable("")
	survey := func(n int, data ...byte) {
		for range n {
			_ = table.survey(&record{flow: "one", side: clientSide, data: data})
		}
	}
	survey(maxSurveyed, 2)
	survey(10*maxSurveyed, 3)
	table.settle()
	if name, _ := table.explain(&record{flow: "one", side: clientSide, data: []byte{2}}); name != "riptide-2.2" {
		t.Errorf("taken for %s", name)
	}
}

// TestOneCaptureIsBounded surveys and explains thousands of conversations, each of which claims megabytes: parts of
// RakNet messages that never become whole, in both directions.
func TestOneCaptureIsBounded(t *testing.T) {
	const conversations = 3000
	table := newTable("")
	before := inUse()
	feed := func(take func(*record)) {
		for i := range conversations {
			for split := range byte(2) {
				for _, from := range []string{"a", "b"} {
					// A reliable part, number and ID "split", the first of 5,000, with 2 bytes of content.
					part := []byte{0x84, 0, 0, 0, 0x50, 0, 16, split, 0, 0, 0, 0, 0x13, 0x88, 0, split, 0, 0, 0, 0, 0x86, 1}
					take(&record{flow: fmt.Sprint(i), from: from, data: part})
				}
			}
		}
	}
	feed(func(r *record) { _ = table.survey(r) })
	if got := inUse() - before; got > 2*maxMemory {
		t.Errorf("the survey keeps %d MiB", got>>20)
	}
	table.settle()
	known := 0
	feed(func(r *record) {
		if name, _ := table.explain(r); name == "raknet" {
			known++
		}
	})
	if got := inUse() - before; got > 2*maxMemory || known == 0 {
		t.Errorf("the explanation of %d datagrams keeps %d MiB", known, got>>20)
	}
}

// inUse returns the bytes in use.
func inUse() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestPcapngOfManyInterfaces refuses a section with more interfaces than a capture has, and reads one without blocks
// that no explanation needs.
func TestPcapngOfManyInterfaces(t *testing.T) {
	section := []byte{
		0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255,
		28, 0, 0, 0,
	}
	interfaces := []byte{1, 0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 4, 0, 20, 0, 0, 0}
	names := []byte{4, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0}
	for n, want := range map[int]error{maxInterfaces: nil, maxInterfaces + 1: errInterfaces} {
		capture := slices.Concat(section, bytes.Repeat(names, 1000), bytes.Repeat(interfaces, n), names)
		err := readRecords(bytes.NewReader(slices.Concat(capture, capture)), 0, func(*record) error { return nil })
		if !errors.Is(err, want) {
			t.Errorf("%d interfaces: %v, want %v", n, err, want)
		}
	}
}
