package demo

import "testing"

func TestArrivals(t *testing.T) {
	a := make(arrivals)
	book := func(p probe) { a.record(p.id(), p.append(nil)) }
	for _, n := range []uint64{0, 1, 1, 3} {
		book(probe{number: n, client: 1, reliable: true})
	}
	book(probe{number: 0, client: 2, reliable: true})
	book(probe{number: 5, client: 2}) // unreliable: not booked
	a.record(7, []byte("no probe"))
	d := Delivery{Sent: 6, Returned: 2, Missing: 4}
	a.correct(&d)
	if want := (Delivery{Sent: 6, Returned: 2, Missing: 2, Duplicated: 1}); d != want {
		t.Errorf("%+v, want %+v", d, want)
	}
}
