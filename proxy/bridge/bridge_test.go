package bridge

import (
	"testing"

	"tidegate/codec"
	"tidegate/internal/policy"
)

var (
	riptideModes = codec.ModesOf(codec.Unreliable, codec.Reliable, codec.Notify)
)

func TestCarryNeverWeakens(t *testing.T) {
	type promise struct{ reliable, exactlyOnce, sequenced, ordered bool }
	promises := map[codec.Mode]promise{
		codec.Unreliable:          {},
		codec.UnreliableSequenced: {sequenced: true},
		codec.Reliable:            {reliable: true, exactlyOnce: true},
		codec.ReliableOrdered:     {reliable: true, exactlyOnce: true, sequenced: true, ordered: true},
		codec.ReliableSequenced:   {reliable: true, sequenced: true},
		codec.Notify:              {sequenced: true},
	}
	for set := codec.Modes(0); set < 1<<6; set++ {
		for want, promised := range promises {
			got, ok := Carry(want, set)
			if !ok {
				if set.Has(want) || set.Has(codec.ReliableOrdered) {
					t.Errorf("Carry(%v, %06b) finds nothing", want, set)
				}
				continue
			}
			p := promises[got]
			switch {
			case !set.Has(got):
				t.Errorf("Carry(%v, %06b) = %v, which is not there", want, set, got)
			case set.Has(want) && got != want:
				t.Errorf("Carry(%v, %06b) = %v, though it is there", want, set, got)
			case promised.reliable && !p.reliable, promised.sequenced && !p.sequenced,
				promised.exactlyOnce && !p.exactlyOnce, promised.ordered && !p.ordered:
				t.Errorf("Carry(%v, %06b) = %v, which is weaker", want, set, got)
			}
		}
	}
}

func TestStepsTowardsRiptide(t *testing.T) {
	withoutNotify := riptideModes &^ codec.ModesOf(codec.Notify)
	for _, c := range []struct {
		ordered policy.Ordered
		want    codec.Mode
		step    step
	}{
		{policy.OrderedStrict, codec.Unreliable, step{mode: codec.Unreliable}},
		{policy.OrderedStrict, codec.UnreliableSequenced, step{mode: codec.Reliable, hold: holdOne}},
		{policy.OrderedStrict, codec.Reliable, step{mode: codec.Reliable}},
		{policy.OrderedStrict, codec.ReliableOrdered, step{mode: codec.Reliable, hold: holdOne}},
		{policy.OrderedStrict, codec.ReliableSequenced, step{mode: codec.Reliable, hold: holdOne}},
		{policy.OrderedFast, codec.UnreliableSequenced, step{mode: codec.Unreliable}},
		{policy.OrderedFast, codec.ReliableOrdered, step{mode: codec.Reliable, hold: holdWatch}},
		{policy.OrderedFast, codec.ReliableSequenced, step{mode: codec.Reliable, hold: holdWatch}},
		{policy.OrderedUnset, codec.ReliableOrdered, step{mode: codec.Reliable, hold: holdWatch}},
	} {
		if got := stepFor(c.want, withoutNotify, &Options{Ordered: c.ordered}); got != c.step {
			t.Errorf("ordered %d, %v: %+v, want %+v", c.ordered, c.want, got, c.step)
		}
	}
}

func TestStepsTowardsAWireWithoutReliability(t *testing.T) {
	notifyOnly := codec.ModesOf(codec.Notify)
	if got := stepFor(codec.Notify, notifyOnly, &Options{}); got != (step{mode: codec.Notify}) {
		t.Errorf("notify: %+v", got)
	}
	unreliable := codec.ModesOf(codec.Unreliable, codec.UnreliableSequenced)
	if got := stepFor(codec.ReliableOrdered, unreliable,
		&Options{AllowLossy: true}); got.mode != codec.UnreliableSequenced {
		t.Errorf("ordered towards sequenced: %+v", got)
	}
}
