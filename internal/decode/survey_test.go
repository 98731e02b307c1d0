package decode

import (
	"errors"
	"fmt"
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
