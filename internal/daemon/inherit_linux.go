package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/netio"
	"tidegate/internal/record"
	"tidegate/proxy"
	"tidegate/proxy/relay"
)

// predecessorEnv is the environment variable that a successor has. Its value is predecessorFD.
const (
	predecessorEnv = "TIDEGATE_PREDECESSOR"
	predecessorFD  = 3
)

// predecessor is the process that has started this one, as its successor.
type predecessor struct {
	*conversation
	handover
}

// inherit returns the process's inheritance: from a predecessor, from systemd, or nothing.
func inherit() (inheritance, error) {
	if os.Getenv(predecessorEnv) == "" {
		return activated()
	}
	_ = os.Unsetenv(predecessorEnv) // child processes must not see it
	unix.CloseOnExec(predecessorFD)
	b, err := newInheritance(os.NewFile(predecessorFD, "predecessor"))
	if err != nil {
		return b, fmt.Errorf("take over from the predecessor: %w", err)
	}
	return b, nil
}

func newInheritance(end *os.File) (b inheritance, err error) {
	p := new(predecessor)
	if p.conversation, err = newConversation(end); err != nil {
		return b, err
	}
	p.within(successorTime)
	m, err := p.receive(wordHello)
	if err != nil {
		return b, err
	}
	defer m.release()
	err = json.Unmarshal(m.body, &p.handover)
	if err == nil && p.Format != HandoverFormat {
		err = fmt.Errorf("release %s hands over in format %d, this release %s reads format %d; restart instead",
			p.Version, p.Format, Version(), HandoverFormat)
	}
	if err == nil {
		if err = record.Readable(p.Records); err != nil {
			err = fmt.Errorf("release %s: %w; restart instead", p.Version, err)
		}
	}
	if err != nil {
		netio.CloseCopies(m.descriptors)
		p.refuse(err)
		return b, err
	}
	b.sockets, b.predecessor, b.activated = m.descriptors, p, p.Activated
	return b, nil
}

// refuse tells the predecessor why this process cannot succeed it.
func (p *predecessor) refuse(why error) {
	_ = p.send(message{Kind: wordRefused, body: []byte(why.Error())}) // it may have died
}

// takeOver takes over the sessions. When it returns, this process must serve them. An error means that the predecessor
// goes on.
func (p *predecessor) takeOver(server *proxy.Server, t trace) (all relay.Imported, err error) {
	p.trace = t
	p.trace.at("successor is ready")
	if err := p.send(message{Kind: wordReady, Keeps: true, body: []byte(Version())}); err != nil {
		return all, p.alone(err)
	}
	estate, err := p.receiveStates(server)
	if err != nil {
		return all, p.alone(err)
	}
	defer estate.release()
	p.trace.at("successor received all")
	if all, err = server.Import(estate.loops, estate.at); err != nil {
		p.refuse(err)
		return all, err
	}
	p.trace.at("successor imported all")
	err = p.send(message{Kind: wordHave})
	if err == nil {
		_, err = p.receive(wordGo)
	}
	p.trace.at("successor goes")
	if err == nil {
		err = p.send(message{Kind: wordRunning})
	}
	return all, p.alone(err)
}

// alone returns nil if the predecessor has died. Its sockets are this process's alone then.
func (p *predecessor) alone(err error) error {
	if errors.Is(err, errEnded) {
		return nil
	}
	return err
}

// estate is the state of all loops of a predecessor.
type estate struct {
	loops    []relay.LoopState
	at       time.Time // of the export
	messages []message // with the memory of loops
}

// receiveStates receives the states of all loops. The caller owns the descriptors, and releases the rest.
func (p *predecessor) receiveStates(server *proxy.Server) (*estate, error) {
	p.within(successorTime)
	all := &estate{loops: make([]relay.LoopState, p.Loops)}
	for all.at.IsZero() {
		m, err := p.receiveAny()
		switch {
		case err == nil && m.Kind == wordGiven:
			err = p.takeSockets(server, &m)
		case err == nil && m.Kind == wordCopies:
			err = p.takeCopies(server, &m)
		case err == nil:
			all.messages = append(all.messages, m)
			err = all.add(&m)
		}
		if err != nil {
			for i := range all.messages {
				all.messages[i].discard()
			}
			return nil, err
		}
	}
	return all, nil
}

// takeSockets takes sockets before the standstill.
func (p *predecessor) takeSockets(server *proxy.Server, m *message) error {
	defer m.release()
	b := proxy.GivenSockets{Loop: m.Loop, State: m.body, Descriptors: m.descriptors}
	if err := server.TakeSockets(b); err != nil {
		return err
	}
	p.trace.at("successor has sockets")
	return p.send(message{Kind: wordCopied})
}

// takeCopies takes a batch of the pre-copy.
func (p *predecessor) takeCopies(server *proxy.Server, m *message) error {
	defer m.discard()
	at := timeOf(m.At)
	if err := server.TakeCopies(proxy.CopiedSessions{Loop: m.Loop, At: at, Batch: m.body}); err != nil {
		return err
	}
	p.trace.at("successor has copies")
	return p.send(message{Kind: wordCopied})
}

// add adds a message to the state.
func (e *estate) add(m *message) (err error) {
	if m.Loop < 0 || m.Loop >= len(e.loops) {
		return proxy.ErrLoops
	}
	s := &e.loops[m.Loop]
	switch m.Kind {
	case wordAll:
		var then int64 // of the export, by the system's monotonic clock in nanoseconds
		if err = json.Unmarshal(m.body, &then); err != nil {
			return fmt.Errorf("time of the export: %w", err)
		}
		e.at = timeOf(then)
	case wordSockets:
		s.Sockets, s.Descriptors = m.body, m.descriptors
	case wordShared:
		s.Shared = m.body
	case wordSessions:
		s.Sessions = append(s.Sessions, m.body)
	default:
		err = fmt.Errorf("received %q", m.Kind)
	}
	return err
}

// release ends the use of the state.
func (e *estate) release() {
	for i := range e.messages {
		e.messages[i].release()
	}
}

// timeOf returns the time at which the system's monotonic clock had a value.
func timeOf(nanoseconds int64) time.Time {
	return time.Now().Add(time.Duration(nanoseconds - monotonic()))
}

// monotonic returns the system's monotonic clock, in nanoseconds.
func monotonic() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // never fails
	return ts.Nano()
}

// awaitEnd receives the last belongings and joins, and calls leftFleet when the predecessor has left its fleet. It
// returns when the predecessor has ended, after predecessorTime at most.
func (p *predecessor) awaitEnd(leftFleet func(), takeJoin func([]byte)) {
	give := time.Now().Add(predecessorTime)
	p.within(predecessorTime)
	for {
		m, err := p.receiveAny()
		if err != nil {
			break
		}
		if m.Kind == wordJoin {
			takeJoin(m.body)
		}
		if last := new(belongings); (m.Kind == wordLate || m.Kind == wordFleet) && json.Unmarshal(m.body, last) == nil {
			p.late = last
			if m.Kind == wordFleet {
				leftFleet()
			}
		}
		m.discard()
	}
	p.awaitExit(give)
	p.close()
}

// awaitExit waits until the kernel has closed everything that the predecessor had. Of a killed process it closes one
// descriptor after the other, the conversation before the admin server's socket. Linux before 5.3 cannot tell.
func (p *predecessor) awaitExit(give time.Time) {
	creator, err := p.creator()
	if err != nil || creator == os.Getpid() { // a test has both ends in one process
		return
	}
	fd, err := unix.PidfdOpen(creator, 0)
	if err != nil {
		return // it has ended
	}
	defer func() { _ = unix.Close(fd) }()
	for {
		left := time.Until(give).Milliseconds()
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(max(left, 0)))
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// predecessorTime bounds the wait for the end of the predecessor.
const predecessorTime = 5 * time.Second
