package relay

import (
	"slices"
	"time"
)

// life is the state of a session. enter is the only way from one to the next.
type life uint8

const (
	opening  life = iota // no server is asked yet; a relayed session: its client has not heard an answer
	asking               // a server is asked ahead, before the client's Hello is complete
	dialing              // a server is asked
	refusing             // the session ends with goodbyes, and has never joined
	joined               // both sides were connected at the same time; a relayed session: its client hears answers
	seeking              // held: the session waits for a server, or asks one
	moving               // held: the old server acknowledges and answers its messages
	leaving              // held: the old server gets a goodbye
	ending               // the session ends with goodbyes
	gone                 // the session has left the table
	lives
)

var lifeNames = [lives]string{
	"opening", "asking", "dialing", "refusing", "joined", "seeking", "moving", "leaving", "ending", "gone",
}

func (l life) String() string { return lifeNames[l] }

// successors are the states that may follow each state.
var successors = [lives][]life{
	opening:  {asking, dialing, joined, refusing, gone}, // joined: a relayed session
	asking:   {dialing, refusing, gone},
	dialing:  {joined, refusing, gone},
	refusing: {gone},
	joined:   {seeking, moving, ending, gone},
	seeking:  {joined, ending, gone},
	moving:   {leaving, seeking, ending, gone},
	leaving:  {seeking, ending, gone},
	ending:   {gone},
}

func (l life) leadsTo(next life) bool {
	return slices.Contains(successors[l], next)
}

// isJoining reports whether the session has not joined yet, and is not refused.
func (l life) isJoining() bool { return l < refusing }

// hasJoined reports whether the session was established once.
func (l life) hasJoined() bool { return joined <= l && l < gone }

// isHeld reports whether the session is between two servers. Then session.hold has the rest of its state.
func (l life) isHeld() bool { return seeking <= l && l <= leaving }

// isEnding reports whether the session says goodbye.
func (l life) isEnding() bool { return l == refusing || l == ending }

// ended returns the state in which a session says goodbye.
func (l life) ended() life {
	if l.hasJoined() {
		return ending
	}
	return refusing
}

// origin says who gave a client its ID.
type origin uint8

const (
	noID      origin = iota // the client was not told yet that it may join
	serversID               // its server
	ownID                   // the Relay
)

// since returns a time as opened and heard have it, and at does the reverse.
func (s *link) since(now time.Time) time.Duration { return now.Sub(s.listener.born) }
func (s *link) at(since time.Duration) time.Time  { return s.listener.born.Add(since) }

// spare moves the deadlines of a session by the time that the process stood still since the last call. It is called
// before a deadline is judged or set, with the whole time since the Relay was made. So a pause costs no walk over all
// sessions.
func (s *link) spare(stood time.Duration) {
	d := stood - s.spared
	if d == 0 {
		return
	}
	s.spared = stood
	if s.isRelayed() {
		if s.life == opening {
			s.opened += d
		}
		return
	}
	if !s.dialBy.IsZero() {
		s.dialBy = s.dialBy.Add(d)
	}
	if s.life.isJoining() {
		s.expires = s.expires.Add(d)
	}
}
