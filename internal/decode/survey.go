package decode

import (
	"errors"
	"fmt"

	"tidegate/codec/explain"
	"tidegate/internal/registry"
)

// Bounds of the survey.
const (
	maxFlows    = 1 << 16
	maxMemory   = 128 << 20 // bytes of all conversations
	flowCost    = 512       // bytes of a conversation, and of each trial
	maxSurveyed = 64        // surveyed records of a conversation
	maxChance   = 2         // datagrams that may fit a protocol by chance
)

var (
	errManyFlows = errors.New("too many conversations in one capture")
	errNoneFits  = errors.New("no known protocol")
)

// table has the conversations of a capture, at most maxFlows.
type table struct {
	forced *protocol
	memory *explain.Memory
	flows  map[string]*flow
}

// flow is one conversation.
type flow struct {
	first    string // address of the first sender
	surveyed int
	trials   []*trial   // the protocols that it may have
	chosen   *explainer // the chosen protocol; nil if none fits
	swapped  bool       // the first sender is the server
	memory   *explain.Memory
}

// trial is an attempt to explain a conversation in one protocol, with the first sender as client or as server.
type trial struct {
	explainer *explainer
	swapped   bool
	opened    bool // the conversation began as the protocol does
	faults    int
}

func newTable(forced string) *table {
	return &table{forced: named(forced), memory: explain.NewMemory(maxMemory), flows: make(map[string]*flow)}
}

// survey uses a record to find its conversation's protocol.
func (t *table) survey(r *record) error {
	f := t.flows[r.flow]
	switch {
	case r.ignored, f == nil && len(t.flows) == maxFlows:
		return nil
	case f == nil:
		f = &flow{first: r.from, trials: t.trials(r), memory: t.memory.Part()}
		if !f.memory.Hold((1 + len(f.trials)) * flowCost) {
			return nil
		}
		t.flows[r.flow] = f
	}
	if len(r.data) == 0 || f.surveyed == maxSurveyed {
		return nil
	}
	for _, trial := range f.trials {
		fromServer := f.fromServer(r, trial.swapped)
		if f.surveyed == 0 {
			trial.opened = !fromServer && (r.stream || trial.explainer.protocol.sniff(r.data))
		}
		if trial.explainer.explain(fromServer, r).fault != nil {
			trial.faults++
		}
	}
	if f.surveyed++; f.surveyed == maxSurveyed {
		t.settleFlow(f)
	}
	return nil
}

// trials returns the trials for the conversation that r begins.
func (t *table) trials(r *record) (all []*trial) {
	try := func(p *protocol) {
		all = append(all, &trial{explainer: newExplainer(p, t.memory)})
		if r.side == anySide {
			all = append(all, &trial{explainer: newExplainer(p, t.memory), swapped: true})
		}
	}
	only := t.forced
	if only == nil {
		only = named(r.protocol)
	}
	if only != nil {
		try(only)
		return all
	}
	for i := range explained {
		try(&explained[i])
	}
	return all
}

// settle ends the survey: each conversation gets the protocol with the fewest faults.
func (t *table) settle() {
	for _, f := range t.flows {
		if f.trials != nil {
			t.settleFlow(f)
		}
	}
}

// settleFlow ends the survey of one conversation.
func (t *table) settleFlow(f *flow) {
	best := f.trials[0]
	for _, trial := range f.trials[1:] {
		if trial.faults < best.faults || trial.faults == best.faults && trial.opened && !best.opened {
			best = trial
		}
	}
	if t.forced != nil || len(f.trials) == 1 || best.convinces(f.surveyed) {
		f.chosen, f.swapped = newExplainer(best.explainer.protocol, t.memory), best.swapped
	}
	for _, trial := range f.trials { // their parts of the memory become free
		trial.explainer.described.Hold(0)
		trial.explainer.framed.Hold(0)
	}
	f.trials = nil
	f.memory.Hold(2 * flowCost)
}

// convinces reports whether a conversation without a named protocol has the trial's protocol. Half of the records must
// be understood. Of a vague protocol with a different beginning, all of a few records must be understood.
func (t *trial) convinces(surveyed int) bool {
	if t.explainer.protocol.Evidence >= registry.ByShape && !t.opened {
		return t.faults == 0 && surveyed > maxChance
	}
	return t.faults*2 <= surveyed
}

// explain explains a record after the survey, and names its protocol.
func (t *table) explain(r *record) (protocol string, meaning explanation) {
	f := t.flows[r.flow]
	switch {
	case r.ignored:
		return "", explanation{}
	case f == nil:
		return "unknown", explanation{fault: errManyFlows}
	case f.chosen == nil && len(r.data) == 0 && r.stream:
		return "unknown", explanation{text: openedOrClosed}
	case f.chosen == nil:
		return "unknown", explanation{fault: fmt.Errorf("%w: %.16x", errNoneFits, r.data)}
	}
	return f.chosen.protocol.Name, f.chosen.explain(f.fromServer(r, f.swapped), r)
}

// fromServer reports whether the server sent r.
func (f *flow) fromServer(r *record, swapped bool) bool {
	if r.side != anySide {
		return r.side == serverSide
	}
	return (r.from != f.first) != swapped
}
