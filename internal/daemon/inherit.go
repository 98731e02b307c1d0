package daemon

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"

	"tidegate/internal/setup"
)

// A new release replaces a running one without losing a session. The predecessor starts the successor with copies of
// its listening sockets and with one end of a socket pair. On this pair they exchange lines in turn:
//
//	predecessor: a handover, as JSON
//	successor:   "ready" and its version, once it has its configuration and the listeners
//	predecessor: "go", once its sessions have their own sockets
//
// Then the successor reads from the listening sockets, and the predecessor ends with its last session. The pair stays
// open until then: its end tells the successor that the predecessor's sessions have left the listeners' addresses.

// successorEnv is the environment variable with the successor's number of listening sockets.
const successorEnv = "TIDEGATE_SUCCESSOR"

// Descriptors of a successor: the socket pair, then the listening sockets, then the pipes of the predecessors.
const conversationFD, firstListenerFD = 3, 4

const (
	wordReady = "ready"
	wordGo    = "go"
)

// handover is the first line from the predecessor. Its JSON names are fixed: releases of different versions exchange
// it.
type handover struct {
	setup.Secrets
	// Drained are the servers that operators have drained, by upstream. Without it operators would have to drain them
	// again.
	Drained map[string][]netip.AddrPort `json:"drained,omitempty"`
	// Predecessors is the number of earlier processes with sessions.
	Predecessors int `json:"elders,omitempty"`
	// Activated means that the service manager has the listening sockets too.
	Activated bool `json:"activated,omitempty"`
	// Version is the predecessor's. A predecessor without it does not expect the successor's version.
	Version string `json:"version,omitempty"`
}

// inheritance is the state that a process inherits at its start.
type inheritance struct {
	sockets      []*os.File    // listening sockets, for proxy.Options.Inherited
	predecessor  *conversation // nil: none
	handover     handover      // from the predecessor
	predecessors *predecessors
}

type conversation struct {
	pipe io.ReadWriteCloser
	in   *bufio.Reader
}

func newConversation(pipe io.ReadWriteCloser) *conversation {
	return &conversation{pipe: pipe, in: bufio.NewReader(pipe)}
}

// send writes a line.
func (c *conversation) send(line string) error {
	_, err := io.WriteString(c.pipe, line+"\n")
	return err
}

// receive waits for a line that begins with a word, and returns the rest of the line.
func (c *conversation) receive(word string) (pause string, err error) {
	line, err := c.in.ReadString('\n')
	got, pause, _ := strings.Cut(strings.TrimSpace(line), " ")
	if err == nil && got != word {
		err = fmt.Errorf("received %q, want %q", line, word)
	}
	return pause, err
}

// inherit returns the process's inheritance: from a predecessor, from systemd, or nothing.
func inherit() (inheritance, error) {
	count := os.Getenv(successorEnv)
	if count == "" {
		b := inheritance{sockets: activation.Files(true), predecessors: newPredecessors()}
		b.handover.Activated = len(b.sockets) > 0
		return b, nil
	}
	_ = os.Unsetenv(successorEnv) // child processes must not see it
	n, err := strconv.Atoi(count)
	if err != nil {
		return inheritance{}, fmt.Errorf("%s=%s: want a number", successorEnv, count)
	}
	pipe := os.NewFile(conversationFD, "predecessor")
	b := inheritance{predecessor: newConversation(pipe), predecessors: newPredecessors(pipe)}
	for i := range n {
		fd := firstListenerFD + i
		b.sockets = append(b.sockets, os.NewFile(uintptr(fd), fmt.Sprint("inherited ", fd)))
	}
	line, err := b.predecessor.in.ReadBytes('\n')
	if err != nil {
		return inheritance{}, fmt.Errorf("read the predecessor's state: %w", err)
	}
	if err := json.Unmarshal(line, &b.handover); err != nil {
		return inheritance{}, fmt.Errorf("read the predecessor's state: %w", err)
	}
	for i := range b.handover.Predecessors {
		b.predecessors.add(os.NewFile(uintptr(firstListenerFD+n+i), "elder"))
	}
	setup.SetSecrets(b.handover.Secrets)
	return b, nil
}

// takeOver waits until the predecessor has left the listening sockets to this process.
func (b inheritance) takeOver() error {
	if b.predecessor == nil {
		return nil
	}
	ready := wordReady
	if b.handover.Version != "" {
		ready += " " + Version()
	}
	err := b.predecessor.send(ready)
	if err == nil {
		_, err = b.predecessor.receive(wordGo)
	}
	if err != nil && !errors.Is(err, io.EOF) { // a dead predecessor has left the sockets too
		return fmt.Errorf("take over: %w", err)
	}
	b.predecessors.watch()
	return nil
}

// othersGone returns a channel that is closed when no other process has sockets at the listeners' addresses any more.
// Nil means never.
func (b inheritance) othersGone() <-chan struct{} {
	if b.handover.Activated {
		return nil
	}
	return b.predecessors.gone
}
