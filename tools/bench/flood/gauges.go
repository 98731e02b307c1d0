package flood

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tidegate/tools/bench/process"
)

// gauges are counts since the start of the subject, or differences of them.
type gauges struct {
	took                       time.Duration // of the observation
	cpu                        time.Duration // of the subject and of the kernel's receiving thread
	line, user, kernel, buffer uint64        // datagrams dropped, as in Figures
}

// observe returns how much the gauges change while the clients run for a time, from begin to end. It resets the
// clients' counts at the start.
func (r *run) observe(d time.Duration, begin, end func() error) (*gauges, error) {
	var before, after gauges
	if err := r.clients.meanwhile(func() (err error) { before, err = r.read(); return err }); err != nil {
		return nil, err
	}
	r.clients.reset()
	began := time.Now()
	if err := errors.Join(begin(), r.clients.run(d, nil), r.clients.meanwhile(end)); err != nil {
		return nil, err
	}
	took := time.Since(began)
	if err := r.clients.meanwhile(func() (err error) { after, err = r.read(); return err }); err != nil {
		return nil, err
	}
	return &gauges{
		took: took, cpu: after.cpu - before.cpu,
		line: after.line - before.line, user: after.user - before.user,
		kernel: after.kernel - before.kernel, buffer: after.buffer - before.buffer,
	}, nil
}

// read reads all gauges.
func (r *run) read() (g gauges, err error) {
	if g.cpu, err = process.CPUTime(r.process.PID()); err != nil {
		return g, err
	}
	if r.testbed.napiThread != 0 {
		receiving, err := process.CPUTime(r.testbed.napiThread)
		if err != nil {
			return g, err
		}
		g.cpu += receiving
	}
	g.line = r.testbed.lineDrops()
	for _, addr := range r.to {
		g.buffer += bufferDrops(addr.Port())
	}
	if !r.subject.isTidegate {
		return g, nil
	}
	d, err := scrapeDrops(r.adminSocket())
	g.user, g.kernel = d.user, d.socket+d.device
	g.buffer -= min(g.buffer, d.socket)
	return g, err
}

// drops are the datagrams that Tidegate dropped: itself, by its filters at sockets, and by its filter on the device.
type drops struct{ user, socket, device uint64 }

// scrapeDrops reads the drops from Tidegate's metrics at a Unix socket.
func scrapeDrops(socket string) (d drops, err error) {
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}
	answer, err := client.Get("http://localhost/metrics")
	if err != nil {
		return d, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return d, fmt.Errorf("metrics: %s", answer.Status)
	}
	return d, d.parse(answer.Body)
}

// parse adds up the metrics that count drops.
func (d *drops) parse(metrics io.Reader) error {
	lines := bufio.NewScanner(metrics)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "} ")
		n, err := strconv.ParseFloat(value, 64)
		filter, isFilter := strings.CutPrefix(name, "tidegate_kernel_filtered_total{")
		switch {
		case err != nil || strings.Contains(name, `verdict="passed"`):
		case strings.HasPrefix(name, "tidegate_dropped_total{"):
			d.user += uint64(n)
		case isFilter && strings.Contains(filter, `hook="socket"`):
			d.socket += uint64(n)
		case isFilter:
			d.device += uint64(n)
		}
	}
	return lines.Err()
}
