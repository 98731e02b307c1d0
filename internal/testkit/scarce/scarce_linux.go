package scarce

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"tidegate/internal/testkit/await"
)

const (
	// table is the number of descriptors that the process may have during a test. Package netio uses none of the last 32.
	table = 256
	most  = 100 // of a set-up
)

// Descriptors calls setUp as often as it opens descriptors, with room for none, for one, and so on. The last call has
// room for all and must succeed. A set-up that fails leaves no descriptor open. tearDown ends one that did not fail,
// and must work also if setUp went on without a part. The test must not run beside others of its process.
func Descriptors(t *testing.T, setUp func() (tearDown func(), err error)) {
	t.Helper()
	tearDown, err := setUp() // the runtime opens its own descriptors here, which must not fail
	if err != nil {
		t.Fatal(err)
	}
	tearDown()
	limit(t)
	held := fill()
	defer func() { empty(held) }()
	failed := 0
	for room := 0; ; room++ {
		empty(held[:room])
		held = held[room:]
		tearDown, err := setUp()
		rest := fill()
		empty(rest)
		if err == nil {
			tearDown()
		} else {
			failed++
		}
		var again []int
		await.Nil(t, func() error {
			again = append(again, fill()...)
			if len(again) < room { // more are free once an earlier test's last descriptor is closed
				return fmt.Errorf("set-up with room for %d descriptors (%v): %d stay open", room, err, room-len(again))
			}
			return nil
		})
		held = append(again, held...)
		if err == nil && len(rest) > 0 {
			break
		}
		if room == most {
			t.Fatalf("room for %d descriptors: %v", room, err)
		}
	}
	if failed == 0 {
		t.Fatal("no step failed")
	}
}

// limit gives the process a small table of descriptors, until the test's end.
func limit(t *testing.T) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	set := func(to syscall.Rlimit) {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &to); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { set(was) })
	set(syscall.Rlimit{Cur: table, Max: was.Max})
}

// fill opens all descriptors that are left, the lowest first.
func fill() (all []int) {
	for {
		fd, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return all
		}
		all = append(all, fd)
	}
}

func empty(all []int) {
	for _, fd := range all {
		_ = syscall.Close(fd) // of /dev/null
	}
}
