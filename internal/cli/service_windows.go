package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"

	"tidegate/internal/daemon"
)

// maxServiceLog is the size from which a new log file is begun when the service starts.
const maxServiceLog = 16 << 20

// runService runs the command line as a Windows service, if the service manager started this process.
func runService(exampleConfig []byte) (code int, ran bool) {
	if is, err := svc.IsWindowsService(); err != nil || !is {
		return 0, false
	}
	s := &windowsService{command: func(ctx context.Context, log io.Writer) int {
		daemon.CatchSignals()
		return run(ctx, exampleConfig, os.Args, log, log)
	}}
	if err := svc.Run("tidegate", s); err != nil { // the name matters only where services share a process
		return 1, true
	}
	return s.code, true
}

// windowsService runs a command and reports its state to the service manager.
type windowsService struct {
	command func(context.Context, io.Writer) int
	code    int // of the ended command
}

// Execute implements svc.Handler. It returns when the command has ended.
func (s *windowsService) Execute(
	_ []string, requests <-chan svc.ChangeRequest, states chan<- svc.Status,
) (specific bool, code uint32) {
	states <- svc.Status{State: svc.StartPending}
	log, err := serviceLog()
	if err != nil {
		s.code = 1
		return true, 1
	}
	defer func() { _ = log.Close() }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan int, 1)
	go func() { ended <- s.command(ctx, log) }()
	running := svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	states <- running
	for {
		select {
		case s.code = <-ended:
			return s.code != 0, uint32(s.code)
		case request := <-requests:
			switch request.Cmd {
			case svc.Interrogate:
				states <- running
			case svc.Stop, svc.Shutdown:
				running = svc.Status{State: svc.StopPending, WaitHint: 90_000} // ms, as in the other services
				states <- running
				cancel()
			}
		}
	}
}

// serviceLog opens the log of the service, since services have no standard error: tidegate.log in the folder Tidegate
// of the programs' data. A large one becomes tidegate.log.old.
func serviceLog() (*os.File, error) {
	data, err := windows.KnownFolderPath(windows.FOLDERID_ProgramData, 0)
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(data, "Tidegate")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(folder, "tidegate.log")
	if info, err := os.Stat(file); err == nil && info.Size() > maxServiceLog {
		_ = os.Rename(file, file+".old") // else the log goes on growing
	}
	return os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
}
