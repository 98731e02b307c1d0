package cli

import (
	"context"
	"fmt"
	"io"
	"testing"

	"golang.org/x/sys/windows/svc"
)

// TestServiceStops runs a command as a service, and stops it as the service manager does.
func TestServiceStops(t *testing.T) {
	s := &windowsService{command: func(ctx context.Context, log io.Writer) int {
		fmt.Fprintln(log, "a line of a test")
		<-ctx.Done()
		return 3
	}}
	requests, states := make(chan svc.ChangeRequest), make(chan svc.Status)
	go func() {
		s.Execute(nil, requests, states)
		close(states)
	}()
	var seen []svc.State
	for state := range states {
		seen = append(seen, state.State)
		if state.State == svc.Running && len(seen) == 2 {
			requests <- svc.ChangeRequest{Cmd: svc.Interrogate}
			seen = append(seen, (<-states).State)
			requests <- svc.ChangeRequest{Cmd: svc.Stop}
		}
	}
	want := []svc.State{svc.StartPending, svc.Running, svc.Running, svc.StopPending}
	if fmt.Sprint(seen) != fmt.Sprint(want) || s.code != 3 {
		t.Errorf("states %v, code %d; want %v, code 3", seen, s.code, want)
	}
}
