package demo

import "testing"

func TestLedger(t *testing.T) {
	for _, step := range []struct {
		what    string
		numbers []uint64 // of the echoes of three messages
		want    Delivery
	}{
		{"all in order", []uint64{0, 1, 2}, Delivery{Sent: 3, Returned: 3}},
		{"all out of order", []uint64{2, 0, 1}, Delivery{Sent: 3, Returned: 3}},
		{"one missing", []uint64{0, 2}, Delivery{Sent: 3, Returned: 2, Missing: 1}},
		{"one twice", []uint64{0, 1, 2, 1}, Delivery{Sent: 3, Returned: 3, Duplicated: 1}},
		{"one thrice, one missing", []uint64{1, 1, 1, 2}, Delivery{Sent: 3, Returned: 2, Missing: 1, Duplicated: 2}},
	} {
		l := newLedger()
		for range 3 {
			l.send()
		}
		for _, n := range step.numbers {
			if !l.receive(n) {
				t.Errorf("%s: number %d was never sent, says the ledger", step.what, n)
			}
		}
		if got := l.delivery(); got != step.want {
			t.Errorf("%s: %+v, want %+v", step.what, got, step.want)
		}
		if l.receive(3) {
			t.Errorf("%s: the ledger takes a number that was never sent", step.what)
		}
	}
}
