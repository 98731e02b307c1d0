//go:build interop

package interop_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tidegate/internal/testkit/await"
)

// endWithTest makes the kernel kill a started process when the test's own process ends, also without its cleanup.
func endWithTest(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGKILL }

// abandoned is the variable that makes TestNoOrphans start a process and wait.
const abandoned = "TIDEGATE_INTEROP_ABANDONED"

// TestNoOrphans kills a test process, as go test does after its timeout. The process that the test had started ends,
// too.
func TestNoOrphans(t *testing.T) {
	if os.Getenv(abandoned) != "" {
		fmt.Println("started", start(t, nil, func([]byte) {}, "sleep", "300").cmd.Process.Pid)
		select {}
	}
	test := exec.Command(os.Args[0], "-test.run", "^TestNoOrphans$")
	test.Env = append(os.Environ(), abandoned+"=yes")
	out, err := test.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := test.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscanf(out, "started %d\n", &pid); err != nil {
		t.Error(err)
	}
	_ = test.Process.Kill() // it may have failed
	_ = test.Wait()         // killed
	await.Until(t, "the end of the abandoned process", func() bool { return !runs(pid) })
}

// runs reports whether a process exists and has not ended.
func runs(pid int) bool {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(status, []byte(") "))
	return !strings.HasPrefix(string(state), "Z")
}
