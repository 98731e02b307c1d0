package fleet

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Bounds of nodes.
const (
	maxNodes = 256 // other than this one
	maxNode  = 64  // bytes of a node's name
	maxWord  = 32  // bytes of a state, a protocol, an instance
)

// Times of attempts, and of reports.
const (
	retryEvery  = time.Second      // while a bucket cannot be read, or does not take a change
	patience    = 3 * time.Second  // for one answer of NATS
	lastChances = time.Second      // for the last changes before the end
	reportLife  = 10 * time.Second // for which the counts of a node hold after its last report
)

var (
	errNode    = errors.New("no name of a node")
	errOldNews = errors.New("an older report than the last one of its node")
	errRoom    = errors.New("no room for the reports of further nodes or servers")
	errTime    = errors.New("a time is outside of the years 0 to 9999")
)

// identity is this node in its fleet.
type identity struct {
	fleet, node string
	log         zerolog.Logger
}

// subject begins the subjects of a kind of messages.
func (i *identity) subject(kind string) string { return "tidegate." + i.fleet + "." + kind }

// refuse logs something of another node that is not valid: a few lines for any number of them.
func (i *identity) refuse(what, from string, total uint64, err error) {
	if total&(total-1) == 0 {
		i.log.Warn().Err(err).Str("from", from).Uint64("total", total).Msg("fleet " + what + " not valid")
	}
}

// signal wakes the reader of a channel with room for one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it has not read the last one yet
	}
}

// runs runs a function on a goroutine of its own. The function that it returns waits for the end.
func runs(f func()) (wait func()) {
	var running sync.WaitGroup
	running.Go(f)
	return running.Wait
}

func isWord(text string) bool { return isName(text, maxWord) }

// isName reports whether a text has 1 to most visible ASCII characters.
func isName(text string, most int) bool {
	isInvisible := func(c rune) bool { return c <= ' ' || c > '~' }
	return text != "" && len(text) <= most && !strings.ContainsFunc(text, isInvisible)
}
