package bench

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
)

// reading is what happened in a time.
type reading struct {
	took                       time.Duration
	cpu                        time.Duration // of the subject and of the kernel's receiving
	line, user, kernel, buffer uint64        // datagrams dropped
}

// observe reads all gauges before and after the game has gone on for so long from a beginning to an end. Players are counted anew.
func (b *battle) observe(d time.Duration, begin, end func() error) (*reading, error) {
	var before, after reading
	if err := b.game.meanwhile(func() (err error) { before, err = b.read(); return err }); err != nil {
		return nil, err
	}
	b.game.forget()
	began := time.Now()
	if err := errors.Join(begin(), b.game.play(d, nil), b.game.meanwhile(end)); err != nil {
		return nil, err
	}
	took := time.Since(began)
	if err := b.game.meanwhile(func() (err error) { after, err = b.read(); return err }); err != nil {
		return nil, err
	}
	return &reading{
		took: took, cpu: after.cpu - before.cpu,
		line: after.line - before.line, user: after.user - before.user, kernel: after.kernel - before.kernel, buffer: after.buffer - before.buffer,
	}, nil
}

// read reads all gauges since their beginning.
func (b *battle) read() (r reading, err error) {
	if r.cpu, err = cpuOf(b.subject.pid()); err != nil {
		return r, err
	}
	if b.arena.worker != 0 {
		worker, err := cpuOf(b.arena.worker)
		if err != nil {
			return r, err
		}
		r.cpu += worker
	}
	r.line = b.arena.line()
	for _, addr := range b.to {
		r.buffer += overflows(addr.Port())
	}
	if b.target.admin == "" {
		return r, nil
	}
	d, err := askDrops(b.socket())
	r.user, r.kernel = d.user, d.socket+d.device
	r.buffer -= min(r.buffer, d.socket)
	return r, err
}

// drops are datagrams that Tidegate dropped: itself, and by its filters before sockets and on the device.
type drops struct{ user, socket, device uint64 }

func askDrops(socket string) (d drops, err error) {
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

// parse adds up what metrics say.
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
