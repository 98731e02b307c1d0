package setup

import (
	"errors"
	"fmt"

	"tidegate/internal/config"
	"tidegate/internal/netio"
)

// CheckMachine reports every source_prefix and transparent upstream that this machine could not have as it is now, or nil.
func CheckMachine(c *config.Config) error {
	var errs []error
	for _, u := range c.Upstreams {
		if u.SourcePrefix == "" {
			continue
		}
		if err := netio.CheckSources(u.SourcePrefix.Prefix()); err != nil {
			errs = append(errs, fmt.Errorf("upstream %s: source_prefix: %w", u.Name, err))
		}
	}
	return errors.Join(append(errs, mayBeTransparent(c))...)
}

// BufferShortfall is a receive buffer of the kernel's that is smaller than the configuration wants it.
type BufferShortfall struct {
	Key          string // for example `loop.receive_buffer`, or `upstream "games": receive_buffer`
	Asked, Given config.Size
}

// String says what is missing, and what to do.
func (s BufferShortfall) String() string {
	return fmt.Sprintf("%s asks for %s, and the kernel gives %s: %s", s.Key, s.Asked, s.Given, s.Remedy())
}

// Remedy is what gives a process the buffer.
func (s BufferShortfall) Remedy() string {
	return fmt.Sprintf("sysctl -w net.core.rmem_max=%d, or the capability CAP_NET_ADMIN", s.Asked)
}

// BufferShortfalls are the receive buffers that this process cannot have as large as configured. granted tells how much of a
// size the kernel gives, as netio.GrantedBuffer does.
func BufferShortfalls(c *config.Config, granted func(size int) (int, error)) (all []BufferShortfall) {
	ask := func(key string, size int) {
		if given, err := granted(size); err == nil && given < size { // an error is for the socket that needs the buffer
			all = append(all, BufferShortfall{key, config.Size(size), config.Size(given)})
		}
	}
	ask("loop.receive_buffer", int(c.Loop.ReceiveBuffer))
	for _, u := range c.Upstreams {
		size := int(u.ReceiveBuffer)
		switch {
		case u.Transport == config.TCP:
			continue
		case u.SourcePrefix != "" || u.ShareSockets:
			size = netio.SharedBuffer(size)
		}
		ask(fmt.Sprintf("upstream %q: receive_buffer", u.Name), size)
	}
	return all
}

// mayBeTransparent reports why an upstream's sessions cannot have the players' own addresses on this machine.
func mayBeTransparent(c *config.Config) error {
	for _, u := range c.Upstreams {
		if !u.Transparent {
			continue
		}
		if err := netio.CheckTransparent(); err != nil {
			return fmt.Errorf("upstream %s: transparent: %w", u.Name, err)
		}
	}
	return nil
}
