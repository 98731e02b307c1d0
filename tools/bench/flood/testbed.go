package flood

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"runtime"

	"tidegate/tools/bench/process"
)

// testbed is the network between the clients and the flood on one side, and the subject on the other.
type testbed struct {
	name        string                      // for the result
	server      netip.Addr                  // where subjects listen
	device      string                      // interface for the subject's XDP filter; "": none
	napiThread  int                         // kernel thread that receives; 0: the sender's core receives
	lineDrops   func() uint64               // packets so far that found no room on the cable
	inNamespace func(func())                // runs a function in the clients' network namespace, on a new thread
	newSender   func(*plan) (sender, error) // to be called in the clients' network namespace
	close       func()

	clients [2]byte // first bytes of the clients' addresses
	sources [2]byte // first bytes of the flood's addresses
}

// openLoopback returns the testbed of machines without the right to make a cable. The flood's core also pays for
// receiving.
func openLoopback() *testbed {
	return &testbed{
		name: "loopback", server: process.Loopback, inNamespace: onThread, newSender: newRawSender, close: func() {},
		lineDrops: func() uint64 { return 0 },
		clients:   [2]byte{127, 100}, sources: [2]byte{127, 200},
	}
}

// client returns the address of a client. Each client has a /24 network of its own, so that no two share a limit.
func (t *testbed) client(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{t.clients[0], t.clients[1], byte(i), 1})
}

// source returns one of the flood's 32,768 addresses in 128 networks of /24, inside or outside the banned network.
func (t *testbed) source(i uint32, banned bool) [4]byte {
	network := byte(i>>8) &^ 128
	if banned {
		network |= 128
	}
	return [4]byte{t.sources[0], t.sources[1], network, byte(i)}
}

// banned returns the network that subjects are configured to ban.
func (t *testbed) banned() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{t.sources[0], t.sources[1], 128, 0}), 17)
}

// onThread runs f on a thread that ends with it.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so that the thread ends
		f()
	}()
	<-done
}

// setNiceAll sets the nice value of all threads of a process.
func setNiceAll(pid, nice int) error {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, task := range tasks {
		var tid int
		if _, err := fmt.Sscan(filepath.Base(task), &tid); err == nil {
			_ = setNice(tid, nice) // the thread may have ended
		}
	}
	return err
}
