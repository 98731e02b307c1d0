//go:build interop

package interop_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is the longest wait for anything.
const patience = 90 * time.Second

// process is a program in its own process group, which is killed at the end of the test.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	wait  func() error // waits for the end of the process and of its output
}

// start starts a program. heard gets each line of output, from one goroutine for stdout and one for stderr.
func start(t *testing.T, env []string, heard func(line []byte), args ...string) *process {
	t.Helper()
	var said transcript
	p := &process{cmd: exec.Command(args[0], args[1:]...)}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout = &lines{said: &said, heard: heard}
	p.cmd.Stderr = &lines{said: &said, heard: heard}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithTest(p.cmd.SysProcAttr)
	p.cmd.WaitDelay = patience
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin = stdin
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.wait = sync.OnceValue(p.cmd.Wait)
	t.Cleanup(func() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // the process may have ended
		_ = p.wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", p.cmd, said.text.String())
		}
	})
	return p
}

// lines is a writer that passes on whole lines.
type lines struct {
	said  *transcript
	heard func(line []byte)
	begun []byte // start of the next line
}

func (l *lines) Write(b []byte) (int, error) {
	l.begun = append(l.begun, b...)
	for {
		line, rest, whole := bytes.Cut(l.begun, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		l.said.append(line)
		l.heard(line)
		l.begun = rest
	}
}

const (
	longest     = 300     // bytes of a line in a transcript
	longestText = 4 << 20 // bytes of a transcript: beyond it the first half goes
)

// transcript is the input and output of a process, shown if the test fails.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *transcript) append(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(line[:min(len(line), longest)])
	s.text.WriteByte('\n')
	if s.text.Len() > longestText {
		s.text.Next(longestText / 2)
	}
}
