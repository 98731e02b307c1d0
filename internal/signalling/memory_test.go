package signalling

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"tidegate/internal/joining"
)

// heap returns the bytes in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // frees the pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

var wide = joining.Limits{
	Unfinished: 20_000, Network: 20_000, Sessions: 20_000,
	Patience: joining.DefaultLimits.Patience}

// TestTicketsKeepNoDescription joins with the largest descriptions. What a ticket keeps must not hold them.
func TestTicketsKeepNoDescription(t *testing.T) {
	const joins = 200
	w := serve(t, func(o *Options) { o.Tickets = joining.NewTickets(wide, nil) })
	filler := strings.Repeat("a=x:"+strings.Repeat("y", 94)+"\r\n", maxBody/100-50)
	w.bds.behave(func(to http.ResponseWriter, _ *http.Request, n int) {
		fmt.Fprintf(to, answerText+"%s", "127.0.0.1", n, filler)
	})
	c := w.dial()
	join := func(n int) {
		id := strings.Repeat("1", 1000)
		if got := c.send(post("/v1/join/"+id, offerOf(n)+filler)); got.status != http.StatusOK {
			t.Fatal(got.status)
		}
		<-w.bds.asked
	}
	join(0)
	before := heap()
	for i := range joins {
		join(i + 1)
	}
	if each := (heap() - before) / joins; each > 8<<10 {
		t.Errorf("%d bytes a join are held, of descriptions of %d", each, len(filler))
	}
}
