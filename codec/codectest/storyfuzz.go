package codectest

import (
	"testing"
	"time"

	"tidegate/codec"
)

// Flags in the first byte of a story.
const (
	flagOpen      byte = 1 << iota // the handshake is over when the story begins
	flagPatient                    // the server waits for opAdmit
	flagTentative                  // the client confirms with opOptional
	flagAhead                      // a Granter's client is dialed ahead, and deferred
)

// Operations of a story. Each is a byte, followed by its arguments.
const (
	opRaw      byte = iota // a length, and a datagram for the target
	opExchange             // a number of rounds in which everything is delivered
	opAltered              // changes of the peer's next datagram: their number, and a place and a value each
	opReplay               // a datagram that came before
	opLose                 // whose datagrams are lost
	opPass                 // a time from storyTimes
	opSay                  // mode, channel, size, and the first bytes of a message of the target
	opPeerSay              // the same of the peer
	opClose                // the target closes, for a reason
	opPeerClose
	opAdmit
	opOptional // a call of an optional interface
	opCount
)

var storyTimes = [...]time.Duration{
	time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, 250 * time.Millisecond, time.Second, 3 * time.Second,
	11 * time.Second, 31 * time.Second,
}

// FuzzConns fuzzes whole connections of all subjects. The input names a subject, and tells a story: what both sides
// do, what the network does, and which forged datagrams arrive at the server, or at the client if dialing is true.
// After each input the contract's laws must hold. Captures of real peers seed the stories of the subjects that know
// them.
func FuzzConns(f *testing.F, subjects []Subject, captures []Capture, dialing bool) {
	for i, s := range subjects {
		for _, seed := range storySeeds(s, captures, dialing) {
			f.Add(byte(i), seed)
		}
	}
	f.Fuzz(func(t *testing.T, subject byte, input []byte) {
		if len(input) > 0 {
			playStory(t, subjects[int(subject)%len(subjects)], dialing, input)
		}
	})
}

// playStory plays one story to its end.
func playStory(t testing.TB, subject Subject, dialing bool, input []byte) {
	s := newStory(t, subject, dialing, input[0])
	s.rest = input[1:]
	if input[0]&flagOpen != 0 {
		s.open()
	}
	for n := 0; n < storyOps && len(s.rest) > 0 && s.steps < storySteps; n++ {
		s.play(s.next() % opCount)
		s.now = s.now.Add(100 * time.Microsecond)
	}
	s.end()
}

// next takes a byte of the story; zero at its end.
func (s *story) next() byte {
	if len(s.rest) == 0 {
		return 0
	}
	b := s.rest[0]
	s.rest = s.rest[1:]
	return b
}

// take takes up to n bytes.
func (s *story) take(n int) []byte {
	n = min(n, len(s.rest))
	b := s.rest[:n]
	s.rest = s.rest[n:]
	return b
}

// play plays one operation.
func (s *story) play(op byte) {
	switch op {
	case opRaw:
		s.deliver(s.target, s.take(int(s.next())))
	case opExchange:
		s.exchange(1 + int(s.next())%8)
	case opAltered:
		s.alter()
	case opReplay:
		s.deliver(s.target, s.memory[s.next()%storyMemory])
	case opLose:
		s.lose(s.next())
	case opPass:
		s.pass(storyTimes[int(s.next())%len(storyTimes)])
	case opSay:
		s.target.say(s.message())
	case opPeerSay:
		s.peer.say(s.message())
	case opClose:
		s.target.close(s.next())
	case opPeerClose:
		s.peer.close(s.next())
	case opAdmit:
		for _, a := range s.actors() {
			if a.conn != nil {
				a.admit()
				a.settle()
			}
		}
	case opOptional:
		s.target.callOptional(s.next())
	}
}

// alter delivers the peer's next datagram, or its last one, with changes.
func (s *story) alter() {
	genuine := s.memory[uint(s.recalled+storyMemory-1)%storyMemory]
	if len(s.peer.line) > 0 {
		genuine = s.peer.line[0]
		s.peer.line = s.peer.line[1:]
		s.remember(genuine)
	}
	changed := append([]byte(nil), genuine...)
	changes := s.next()
	for range changes & 7 {
		if at := int(s.next()); at < len(changed) {
			changed[at] = s.next()
		}
	}
	if changes&0x80 != 0 { // cut
		changed = changed[:min(len(changed), int(s.next()))]
	}
	if changes&0x40 != 0 { // extend
		changed = append(changed, s.take(int(s.next()&31))...)
	}
	reseal(genuine, changed)
	s.deliver(s.target, changed)
}

// lose drops the datagrams under way from the target, the peer or both.
func (s *story) lose(whose byte) {
	for i, a := range s.actors() {
		if whose&(1<<i) != 0 {
			a.line = a.line[:0]
		}
	}
}

// message makes a message from the story.
func (s *story) message() codec.Message {
	m := codec.Message{Mode: codec.Mode(s.next() % byte(codec.ModeCount+1)), Channel: s.next(), HasID: true, ID: 5}
	size := int(s.next())
	head := s.take(min(size, 4))
	m.Payload = append(append([]byte(nil), head...), make([]byte, size*size/8)...)
	return m
}

func (a *actor) close(why byte) {
	if a.conn == nil {
		return
	}
	data := []byte{why, 1, 2, 3}
	a.conn.Close(a.s.now, codec.Goodbye{Reason: codec.Reason(why) % codec.Reason(codec.ReasonCount), Data: data})
	clear(data)
	a.settle()
}

// callOptional calls an optional interface, if the Conn has it.
func (a *actor) callOptional(which byte) {
	if a.conn == nil || a.over {
		return
	}
	switch c := a.conn; which & 7 {
	case 0, 1, 2:
		if t, ok := c.(codec.Throttler); ok {
			t.Throttle(a.s.now, codec.Pressure(which&3))
			if fill := t.Fill(); fill < 0 {
				a.failf("Fill is %v", fill)
			}
		}
	case 3:
		if t, ok := c.(codec.LossTolerant); ok {
			t.TolerateLoss(a.s.now.Add(time.Second))
		}
	case 4:
		if t, ok := c.(codec.Confirmer); ok {
			t.Confirm(a.s.now)
		}
	case 5:
		if t, ok := c.(codec.Deferrer); ok && a.deferred {
			a.deferred = false
			t.Grant(a.s.now, uint64(which))
		}
	case 6:
		if t, ok := c.(codec.Redialer); ok && a.dials {
			t.Stranded()
			t.Redial(a.s.now, nil)
		}
	case 7:
		if t, ok := c.(codec.WorldResetter); ok {
			t.ResetWorld(a.s.now)
		} else if !a.dials {
			_ = c.Announce(a.s.now, codec.Joined, uint16(which))
		}
	}
	a.settle()
}

const (
	seedCaptures  = 6   // captures of each subject
	seedDatagrams = 24  // of each capture
	seedLongest   = 255 // bytes of a captured datagram in a story
)

// storySeeds returns stories from captures that the subject knows, and some of its own.
func storySeeds(s Subject, captures []Capture, dialing bool) (seeds [][]byte) {
	server, _ := s.New()
	from := "client"
	if dialing {
		from = "server"
	}
	known := 0
	for _, c := range captures {
		client := c.Clients()[0]
		lines := c.From(client, "client")
		if c.Stream || len(lines) == 0 || !server.Sniff(lines[0].Datagram) || known == seedCaptures {
			continue
		}
		known++
		for _, flags := range []byte{0, flagOpen} {
			seed := []byte{flags}
			for _, l := range c.From(client, from)[:min(len(c.From(client, from)), seedDatagrams)] {
				if len(l.Datagram) <= seedLongest {
					seed = append(append(seed, opRaw, byte(len(l.Datagram))), l.Datagram...)
					seed = append(seed, opPass, 1)
				}
			}
			seeds = append(seeds, seed)
		}
	}
	return append(seeds, ownStories()...)
}

// ownStories returns stories that use each operation.
func ownStories() [][]byte {
	say := func(op, mode, size byte) []byte { return []byte{op, mode, 0, size, 0x90, 1, 2, 3} }
	var all, talk []byte
	for m := range byte(codec.ModeCount) {
		talk = append(append(talk, say(opSay, m, 9)...), say(opPeerSay, m, 150)...)
		talk = append(talk, opExchange, 3, opPass, 2)
	}
	all = append(append(append(all, flagOpen), talk...), opPass, 4, opExchange, 7, opPeerClose, 9, opExchange, 7)
	lossy := append([]byte{flagOpen}, talk...)
	lossy = append(append(append(lossy, opLose, 3, opPass, 3, opLose, 1), talk...), opPass, 6, opExchange, 7, opPass, 7)
	altered := append([]byte{flagOpen}, say(opPeerSay, 2, 30)...)
	for at := range byte(12) {
		altered = append(append(altered, say(opPeerSay, 2+at%2, 30)...), opAltered, 1, at, at, opReplay, at)
	}
	slow := []byte{flagPatient | flagTentative, opExchange, 5, opPass, 2, opAdmit, opExchange, 7, opOptional, 4}
	slow = append(slow, opExchange, 7)
	ahead := []byte{flagAhead, opExchange, 7, opPass, 2, opOptional, 5, opExchange, 7, opPass, 3, opExchange, 7}
	calls := append([]byte{flagOpen}, talk...)
	for which := range byte(8) {
		calls = append(append(append(calls, opOptional, which), say(opPeerSay, 3, 20)...), opExchange, 2, opPass, 2)
	}
	return [][]byte{all, lossy, altered, append(slow, talk...), append(ahead, talk...), append(calls, opClose, 9)}
}
