package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"tidegate/internal/admin"
	"tidegate/internal/netio"
	"tidegate/internal/pause"
	"tidegate/internal/record"
	"tidegate/proxy"
	"tidegate/proxy/relay"
)

const (
	// successorTime is the longest time until a successor is ready.
	successorTime = 30 * time.Second
	// freezeTime is the longest time in which the process stands still for its successor, if a pre-copy predicts nothing.
	freezeTime = 5 * time.Second
	// leastFreeze and freezeFactor bound the standstill by what the pre-copy predicts. A successor that hangs costs
	// players that time.
	leastFreeze, freezeFactor = 250 * time.Millisecond, 10
	// fewCopied is the size in bytes of copies that say nothing yet about the successor's pace.
	fewCopied = 256 << 10
	// catchUpTime is the time in which a successor handles the datagrams that have waited. The end of this process frees
	// much memory, which takes processor time from the successor. So the process ends later.
	catchUpTime = 250 * time.Millisecond
	// leaveTime is the longest wait for the end of this process's part in the fleet.
	leaveTime = 2 * time.Second
	// lastTime bounds the last messages to a successor that runs.
	lastTime = leaveTime + catchUpTime + 5*time.Second
)

// upgrades receives SIGUSR2 after CatchSignals.
var upgrades = make(chan os.Signal, 1)

func catchUpgrades() { signal.Notify(upgrades, syscall.SIGUSR2) }

// onSignal upgrades at SIGUSR2 until ctx is done or an upgrade succeeds.
func (u *upgrader) onSignal(ctx context.Context) {
	go func() {
		for range pause.On(ctx, upgrades) {
			if u.upgrade() {
				return
			}
		}
	}()
}

// request begins an upgrade, unless one is about to begin.
func (u *upgrader) request() error {
	u.state.Store(&admin.Upgrade{Running: true})
	select {
	case upgrades <- syscall.SIGUSR2:
	default: // the waiting request does the same
	}
	return nil
}

// upgrade replaces the process, or logs why it failed. It reports success.
func (u *upgrader) upgrade() bool {
	u.running.Lock()
	defer u.running.Unlock()
	u.state.Store(&admin.Upgrade{Running: true})
	u.reloads.changing.Lock()
	defer u.reloads.changing.Unlock()
	s, err := u.succeed()
	if err != nil {
		u.server.AllowStacked()
		u.state.Store(&admin.Upgrade{Error: err.Error()})
		u.log.Error().Err(err).Str("program", u.program).Msg("upgrade failed; this process continues")
		return false
	}
	u.log.Info().Int("successor", s.process.Process.Pid).Str("program", u.program).Str("successor_version", s.version).
		Int64("stood_still_ms", s.stood.Milliseconds()).Msg("handed over; this process ends")
	return true
}

// successor is the process that takes over.
type successor struct {
	*conversation
	process *exec.Cmd
	version string
	keeps   bool          // it takes copies before the standstill
	copied  int           // bytes of the copies
	copying time.Duration // until it had them
	slowest time.Duration // the longest wait for its answer
	stood   time.Duration // how long this process stood still for it
}

// succeed starts a successor and hands everything over to it. An error changes nothing.
func (u *upgrader) succeed() (s *successor, err error) {
	if u.program == "" {
		return nil, errors.New("no program file can replace this process; start tidegate run for that")
	}
	listeners, err := u.server.Listening()
	if err != nil {
		return nil, err
	}
	listeners = append(listeners, u.joins.copyPorts()...)
	defer netio.CloseCopies(listeners) // the successor has copies
	if s, err = u.start(); err != nil {
		return nil, fmt.Errorf("start successor: %w", err)
	}
	s.trace.at("process started its successor")
	if err = u.introduce(s, listeners); err == nil {
		err = u.handOver(s)
	}
	if err != nil {
		s.kill()
		if errors.Is(err, errEnded) {
			err = fmt.Errorf("%w: %v", err, s.process.ProcessState)
		}
		return nil, err
	}
	go func() { _ = s.process.Wait() }() // the successor runs on its own now
	return s, nil
}

// kill ends the successor for certain, before this process goes on.
func (s *successor) kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
	s.close()
}

// start runs the program file with this process's arguments.
func (u *upgrader) start() (*successor, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer func() { _ = theirs.Close() }()
	process := exec.Command(u.program, os.Args[1:]...)
	process.Stdout, process.Stderr = os.Stdout, os.Stderr
	process.Env = append(os.Environ(), predecessorEnv+"="+strconv.Itoa(predecessorFD))
	process.ExtraFiles = []*os.File{theirs}
	if err := process.Start(); err != nil {
		ours.close()
		return nil, err
	}
	ours.trace = u.trace
	return &successor{conversation: ours, process: process}, nil
}

// introduce gives the successor all that it needs for its start, and waits until it is ready.
func (u *upgrader) introduce(s *successor, listeners []int) error {
	current, earlier := u.reloads.texts()
	body, err := json.Marshal(handover{
		Format: HandoverFormat, Version: Version(), Loops: u.loops, Records: record.Versions(),
		Secrets: u.secrets, Config: current, Earlier: earlier, Retired: retired(u.server),
		Activated: u.from.activated, belongings: u.belongings(),
	})
	if err != nil {
		return err
	}
	s.within(successorTime)
	if err := s.send(message{Kind: wordHello, body: body, descriptors: listeners}); err != nil {
		return fmt.Errorf("start successor: %w", err)
	}
	ready, err := s.receive(wordReady)
	if err != nil {
		return fmt.Errorf("successor not ready: %w", err)
	}
	s.version, s.keeps = string(ready.body), ready.Keeps
	ready.release()
	s.trace.at("process has its successor ready")
	return nil
}

// belongings returns what the process has beside its loops.
func (u *upgrader) belongings() belongings {
	b := belongings{Drained: u.server.Drained(), Bans: u.bans.unwritten()}
	switch {
	case u.left:
	case u.leaving != nil:
		b.Fleet = *u.leaving
	default:
		b.Fleet = u.pending()
	}
	return b
}

// giveFleet leaves the fleet, and lets the successor join it: only one process can be a node. Players of other nodes
// and players whose datagrams arrive there wait for that, so it comes before the end of this process.
func (u *upgrader) giveFleet(s *successor) {
	last := u.belongings()
	body, err := json.Marshal(last)
	if err != nil {
		return // the successor joins after the end of this process
	}
	u.leaving = &last.Fleet
	left := make(chan struct{})
	go func() {
		defer close(left)
		u.leave()
	}()
	select {
	case <-left:
	case <-time.After(leaveTime):
		return
	}
	u.left = true
	_ = s.send(message{Kind: wordFleet, body: body}) // it may have died
}

// tellLast hands joins on to a successor that runs, leaves the fleet to it, and tells it what operators have changed
// until now. Nothing of that waits for goodbyes to players.
func (u *upgrader) tellLast(s *successor, releaseJoins func(heir func(join []byte) error), sayGoodbyes func()) {
	s.within(lastTime) // the bound of the standstill is past, or nearly so
	releaseJoins(func(join []byte) error { return s.send(message{Kind: wordJoin, body: join}) })
	said := make(chan struct{})
	go func() {
		defer close(said)
		sayGoodbyes()
	}()
	u.giveFleet(s)
	time.Sleep(catchUpTime)
	if body, err := json.Marshal(u.belongings()); err == nil {
		_ = s.send(message{Kind: wordLate, body: body}) // else the successor has those of the first message
	}
	<-said
}

// handOver stands still, gives the successor everything, and lets it go on. After an error this process goes on: the
// successor is killed first.
func (u *upgrader) handOver(s *successor) error {
	defer restCollector()()
	u.server.HoldStacked()
	if s.keeps {
		s.trace.at("process copies the sessions")
		if err := u.server.Precopy(context.Background(), s); err != nil {
			return fmt.Errorf("copy the sessions: %w", err)
		}
	}
	release := u.joins.hold()
	frozen, err := u.server.Freeze()
	if err != nil {
		release(nil)
		return err
	}
	began, at := time.Now(), monotonic()
	s.trace.at("process stands still")
	states := frozen.Export()
	s.within(s.freeze(states))
	if err := s.give(at, states); err != nil {
		s.kill()
		frozen.Thaw()
		release(nil)
		return fmt.Errorf("hand over: %w", err)
	}
	s.stood = time.Since(began)
	s.trace.at("successor runs")
	manager.succeededBy(s.process.Process.Pid) // before this process ends: until then, the successor sends no message
	u.tellLast(s, release, func() {
		if told, behind := frozen.DismissStacked(); told+behind > 0 {
			u.log.Warn().Int("told_to_join_again", told).Int("left_behind", behind).Msg("NetherNet sessions have no successor")
		}
	})
	frozen.Leave()
	u.reloads.stop() // after Leave, for which a reload may wait
	return nil
}

// freeze returns how long the process stands still for these states at most. The successor answers twice, and enters
// the sessions as it has entered the copies.
func (s *successor) freeze(states []relay.LoopState) time.Duration {
	if !s.keeps {
		return freezeTime
	}
	size := 0
	for i := range states {
		for _, b := range states[i].Sessions {
			size += len(b)
		}
	}
	predicted := 2*s.slowest + time.Duration(float64(s.copying)*float64(size)/float64(max(s.copied, fewCopied)))
	return min(leastFreeze+freezeFactor*predicted, freezeTime)
}

// GiveSessions implements proxy.Heir.
func (s *successor) GiveSessions(b proxy.CopiedSessions) error {
	at, began := monotonic()-time.Since(b.At).Nanoseconds(), time.Now()
	err := s.giveBefore(message{Kind: wordCopies, Loop: b.Loop, At: at, body: b.Batch})
	took := time.Since(began)
	s.copied, s.copying, s.slowest = s.copied+len(b.Batch), s.copying+took, max(s.slowest, took)
	return err
}

// GiveSockets implements proxy.Heir.
func (s *successor) GiveSockets(b proxy.GivenSockets) error {
	return s.giveBefore(message{Kind: wordGiven, Loop: b.Loop, body: b.State, descriptors: b.Descriptors})
}

// giveBefore sends a part of a pre-copy, and waits until the successor has it.
func (s *successor) giveBefore(m message) error {
	s.within(successorTime)
	if err := s.send(m); err != nil {
		return err
	}
	_, err := s.receive(wordCopied)
	return err
}

// give sends the states of all loops as they were at a time, and waits until the successor runs.
func (s *successor) give(at int64, states []relay.LoopState) error {
	for i := range states {
		state := &states[i]
		err := s.send(message{Kind: wordSockets, Loop: i, body: state.Sockets, descriptors: state.Descriptors})
		if err == nil {
			err = s.send(message{Kind: wordShared, Loop: i, body: state.Shared})
		}
		for _, b := range state.Sessions {
			if err == nil {
				err = s.send(message{Kind: wordSessions, Loop: i, body: b})
			}
		}
		if err != nil {
			return err
		}
	}
	s.trace.at("process sent the sessions")
	if err := s.send(message{Kind: wordAll, body: strconv.AppendInt(nil, at, 10)}); err != nil {
		return err
	}
	s.trace.at("process sent all")
	if _, err := s.receive(wordHave); err != nil {
		return err
	}
	s.trace.at("process lets the successor go")
	if err := s.send(message{Kind: wordGo}); err != nil {
		return err
	}
	_, err := s.receive(wordRunning)
	return err
}
