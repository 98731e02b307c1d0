package rakserver

import (
	"runtime"
	"strings"
)

// Stuck returns the stacks of go-raknet's goroutines in this process that a deadlock of its ElasticChan holds, or
// nothing. Its Send waits for a lock that a reader of the empty channel has. A listener is deaf until the reader's
// connection times out (docs/interop/faults.md). A player of any kind can meet it, also a direct one.
func Stuck() string { return stuckOf(stacks()) }

func stuckOf(stacks []string) string {
	var stuck []string
	for _, stack := range stacks {
		if strings.Contains(stack, "ElasticChan[...]).growSend") && strings.Contains(stack, "RWMutex).Lock") {
			stuck = append(stuck, stack)
		}
	}
	return strings.Join(stuck, "\n\n")
}

// Receivers returns the stacks of the goroutines that receive for go-raknet's listeners and clients in this process.
func Receivers() string {
	var all []string
	for _, stack := range stacks() {
		if strings.Contains(stack, "go-raknet.(*Listener).listen") || strings.Contains(stack, "go-raknet.(*Conn).receive(") {
			all = append(all, stack)
		}
	}
	return strings.Join(all, "\n\n")
}

// stacks returns the stack of each goroutine.
func stacks() []string {
	for b := make([]byte, 1<<20); ; b = make([]byte, 2*len(b)) {
		if n := runtime.Stack(b, true); n < len(b) {
			return strings.Split(string(b[:n]), "\n\n")
		}
	}
}
