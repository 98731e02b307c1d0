//go:build interop && chaos

package interop_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tidegate/internal/testkit/await"
)

// memoryLimit is that of the group. Tidegate with 20 players needs less than half of it.
const memoryLimit = 96 << 20

// memoryGroup makes a control group with little memory, of version 1 or 2. Both name the processes' file alike.
func memoryGroup(t *testing.T) (dir string) {
	t.Helper()
	for parent, limit := range map[string]string{
		"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max",
	} {
		dir := filepath.Join(parent, fmt.Sprintf("tidegate-chaos-%d", os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { await.Until(t, "an empty group", func() bool { return os.Remove(dir) == nil }) })
		if _, err := os.Stat(filepath.Join(dir, limit)); err != nil {
			continue
		}
		if os.WriteFile(filepath.Join(dir, limit), []byte(strconv.Itoa(memoryLimit)), 0) == nil {
			return dir
		}
	}
	t.Skip("this needs root and a control group of memory")
	return ""
}

// inGroup is a shell's command that runs another one in a control group.
const inGroup = `echo $$ > "$0/cgroup.procs" && exec "$@"`

// memoryUsed lets a neighbor use up the memory of Tidegate's group. The kernel kills the largest process there.
func memoryUsed(t *testing.T) string {
	group := memoryGroup(t)
	within := func(command ...string) []string { return append([]string{"sh", "-c", inGroup, group}, command...) }
	g := bedrock(t, startGoServer(t)).openBy(t, within(tidegate)...)
	g.await(t, "memory limit is too small for the configured bounds")
	players := newCrowd(t, "bedrock", udp)
	for range 20 {
		players.dial(g.plan.port)
	}
	await.Until(t, "joined", func() bool { return players.up() == 20 })
	const times = 3
	said := 0
	for range times {
		command := within("tail", "/dev/zero") // it keeps the last line, which has no end
		neighbor := exec.Command(command[0], command[1:]...)
		if err := neighbor.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- neighbor.Wait() }()
		for alive := true; alive; {
			players.say(players.reliable())
			said += 20
			await.Until(t, "echoed", func() bool { return players.echoed() || players.gone() > 0 })
			select {
			case err := <-ended:
				if err == nil || !strings.Contains(err.Error(), "killed") {
					t.Fatalf("the memory is not used up: %v", err)
				}
				alive = false
			default:
			}
		}
		joins(t, g.plan.port).plays(t)
	}
	if left := players.gone(); left > 0 {
		t.Errorf("%d of 20 players lost their session", left)
	}
	return fmt.Sprintf("it says so; the kernel kills the neighbor %d times: 20 of 20 play on, %d of %d messages came "+
		"back, %d join", times, said, said, times)
}
