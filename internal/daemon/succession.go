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

// A new release takes over from a running one without losing a session. The predecessor starts the successor with copies
// of its listening sockets and one end of a pair of sockets, on which they say in turn:
//
//	predecessor: a legacy, as JSON
//	successor:   "ready" and its version, once it has its configuration and the listeners
//	predecessor: "go", once its sessions have sockets of their own
//
// Then the successor reads the listeners' sockets, and the predecessor ends with its last session. The pair stays open until
// then: its end tells the successor that the predecessor's sessions have left the listeners' addresses.

// successorEnv is the environment variable that tells a successor how many listening sockets it has.
const successorEnv = "TIDEGATE_SUCCESSOR"

// Descriptors of a successor: the conversation, then the listening sockets, then the pipes of the elders.
const conversationFD, firstListenerFD = 3, 4

const (
	saysReady = "ready"
	saysGo    = "go"
)

// legacy is what a successor is told before all else.
type legacy struct {
	setup.Secrets
	// Drained are the servers that operators have drained, by upstream: nobody would think of draining them once more.
	Drained map[string][]netip.AddrPort `json:"drained,omitempty"`
	// Elders is how many earlier processes still have sessions.
	Elders int `json:"elders,omitempty"`
	// Activated says that the service manager has the listening sockets too.
	Activated bool `json:"activated,omitempty"`
	// Version is the predecessor's. One without does not want to know the successor's.
	Version string `json:"version,omitempty"`
}

// birth is what a process was started with.
type birth struct {
	sockets     []*os.File    // listening, for proxy.Options.Inherited
	predecessor *conversation // nil: none
	legacy      legacy        // the predecessor's
	elders      *elders
}

type conversation struct {
	pipe io.ReadWriteCloser
	in   *bufio.Reader
}

func newConversation(pipe io.ReadWriteCloser) *conversation {
	return &conversation{pipe: pipe, in: bufio.NewReader(pipe)}
}

// say writes a line.
func (c *conversation) say(line string) error {
	_, err := io.WriteString(c.pipe, line+"\n")
	return err
}

// hear waits for a line that begins with a word, and returns the rest of it.
func (c *conversation) hear(word string) (rest string, err error) {
	line, err := c.in.ReadString('\n')
	got, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	if err == nil && got != word {
		err = fmt.Errorf("said %q in place of %q", line, word)
	}
	return rest, err
}

// born finds out what the process was started with: the sockets of a predecessor, or of systemd, or nothing.
func born() (birth, error) {
	count := os.Getenv(successorEnv)
	if count == "" {
		b := birth{sockets: activation.Files(true), elders: newElders()}
		b.legacy.Activated = len(b.sockets) > 0
		return b, nil
	}
	_ = os.Unsetenv(successorEnv) // it is not for our own children
	n, err := strconv.Atoi(count)
	if err != nil {
		return birth{}, fmt.Errorf("%s=%s: want a number", successorEnv, count)
	}
	pipe := os.NewFile(conversationFD, "predecessor")
	b := birth{predecessor: newConversation(pipe), elders: newElders(pipe)}
	for i := range n {
		fd := firstListenerFD + i
		b.sockets = append(b.sockets, os.NewFile(uintptr(fd), fmt.Sprint("inherited ", fd)))
	}
	line, err := b.predecessor.in.ReadBytes('\n')
	if err != nil {
		return birth{}, fmt.Errorf("hear of the predecessor: %w", err)
	}
	if err := json.Unmarshal(line, &b.legacy); err != nil {
		return birth{}, fmt.Errorf("hear of the predecessor: %w", err)
	}
	for i := range b.legacy.Elders {
		b.elders.add(os.NewFile(uintptr(firstListenerFD+n+i), "elder"))
	}
	setup.SetSecrets(b.legacy.Secrets)
	return b, nil
}

// takeOver waits until the listening sockets are this process's alone, if there is a predecessor.
func (b birth) takeOver() error {
	if b.predecessor == nil {
		return nil
	}
	ready := saysReady
	if b.legacy.Version != "" {
		ready += " " + Version()
	}
	err := b.predecessor.say(ready)
	if err == nil {
		_, err = b.predecessor.hear(saysGo)
	}
	if err != nil && !errors.Is(err, io.EOF) { // a predecessor that has died has left them too
		return fmt.Errorf("take over: %w", err)
	}
	b.elders.watch()
	return nil
}

// othersGone is closed when no other process has sockets at the listeners' addresses any more; nil: never.
func (b birth) othersGone() <-chan struct{} {
	if b.legacy.Activated {
		return nil
	}
	return b.elders.gone
}
