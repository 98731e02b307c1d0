package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"tidegate/internal/netio"

	"golang.org/x/sys/unix"
)

// conversation is one end of a socket pair between a process and its successor.
type conversation struct {
	conn  *net.UnixConn
	trace trace

	sending sync.Mutex
}

// message is one message of a conversation. Its header is a packet of JSON, with the body in a file in memory. Packets
// with the descriptors follow. JSON names are fixed: different releases exchange them.
type message struct {
	Kind        string `json:"kind"`
	Loop        int    `json:"loop,omitempty"`
	Size        int    `json:"size,omitempty"`        // of body, in bytes
	Descriptors int    `json:"descriptors,omitempty"` // number of them
	At          int64  `json:"at,omitempty"`          // moment of saving, by the system's monotonic clock in nanoseconds
	Keeps       bool   `json:"keeps,omitempty"`       // the sender takes "given" and "copies"
	body        []byte
	descriptors []int
}

// Bounds of a message.
const (
	mostBody        = 1<<31 - 1
	mostDescriptors = 1 << 22
	packetRoom      = 1 << 10
	perPacket       = 253 // descriptors (SCM_MAX_FD in the kernel)
)

// socketPair returns the two ends of a conversation.
func socketPair() (ours *conversation, theirs *os.File, err error) {
	pair, err := syscall.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs = os.NewFile(uintptr(pair[1]), "successor's end")
	if ours, err = newConversation(os.NewFile(uintptr(pair[0]), "own end")); err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return ours, theirs, nil
}

// newConversation makes a conversation of an end, and closes the file.
func newConversation(end *os.File) (*conversation, error) {
	conn, err := net.FileConn(end)
	_ = end.Close() // conn has a copy
	if err != nil {
		return nil, err
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("the descriptor is no Unix socket"), conn.Close())
	}
	return &conversation{conn: unixConn}, nil
}

// creator returns the ID of the process that has made the conversation.
func (c *conversation) creator() (pid int, err error) {
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	if ctrlErr := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); ctrlErr != nil {
		return 0, ctrlErr
	}
	if err != nil {
		return 0, os.NewSyscallError("getsockopt", err)
	}
	return int(cred.Pid), nil
}

// within bounds the time of all further messages.
func (c *conversation) within(d time.Duration) { _ = c.conn.SetDeadline(time.Now().Add(d)) }

// send sends a message. The caller keeps the descriptors.
func (c *conversation) send(m message) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	m.Size, m.Descriptors = len(m.body), len(m.descriptors)
	header, err := json.Marshal(m)
	if err != nil {
		return err
	}
	var attached []byte
	if m.Size > 0 {
		file, err := memoryFile(m.body)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		attached = unix.UnixRights(int(file.Fd()))
	}
	if err := c.write(header, attached); err != nil {
		return err
	}
	for rest := m.descriptors; len(rest) > 0; {
		n := min(len(rest), perPacket)
		if err := c.write([]byte{0}, unix.UnixRights(rest[:n]...)); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

func (c *conversation) write(packet, attached []byte) error {
	_, _, err := c.conn.WriteMsgUnix(packet, attached, nil)
	return orEnded(err)
}

// errEnded reports that the other process has ended, or has closed its end.
var errEnded = errors.New("the other process has ended")

// orEnded returns errEnded for the errors by which the kernel tells it.
func orEnded(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return errEnded
	}
	return err
}

// memoryFile returns a file in memory with the text.
func memoryFile(text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("tidegate", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), "memory")
	if _, err := file.Write(text); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// errRefused reports that the other process refuses to go on.
var errRefused = errors.New("refused")

// receive waits for a message of a kind.
func (c *conversation) receive(kind string) (message, error) {
	m, err := c.receiveAny()
	if err == nil && m.Kind != kind {
		m.discard()
		return message{}, fmt.Errorf("received %q, want %q", m.Kind, kind)
	}
	return m, err
}

// receiveAny waits for a message. The caller owns its descriptors, and releases its body. A refusal is an error.
func (c *conversation) receiveAny() (m message, err error) {
	header, attached, err := c.read()
	if err != nil {
		return m, err
	}
	defer netio.CloseCopies(attached) // the body stays mapped
	if err := json.Unmarshal(header, &m); err != nil {
		return message{}, fmt.Errorf("read a message of the other process: %w", err)
	}
	if err = m.receiveRest(c, attached); err == nil && m.Kind == wordRefused {
		err = fmt.Errorf("%w: %s", errRefused, m.body)
	}
	if err != nil {
		m.discard()
		return message{}, err
	}
	return m, nil
}

// receiveRest receives the body and the descriptors.
func (m *message) receiveRest(c *conversation, attached []int) (err error) {
	if m.Size < 0 || m.Size > mostBody || m.Descriptors < 0 || m.Descriptors > mostDescriptors ||
		(m.Size > 0) != (len(attached) == 1) {
		return fmt.Errorf("message %q of the other process is out of bounds", m.Kind)
	}
	if m.Size > 0 {
		if m.body, err = mapped(attached[0], m.Size); err != nil {
			return err
		}
	}
	for len(m.descriptors) < m.Descriptors {
		_, more, err := c.read()
		if err != nil {
			return err
		}
		if len(more) == 0 {
			return fmt.Errorf("message %q of the other process has too few descriptors", m.Kind)
		}
		m.descriptors = append(m.descriptors, more...)
	}
	return nil
}

// discard releases the message with its descriptors.
func (m *message) discard() {
	netio.CloseCopies(m.descriptors)
	m.release()
}

// read reads a packet.
func (c *conversation) read() (packet []byte, attached []int, err error) {
	packet, oob := make([]byte, packetRoom), make([]byte, unix.CmsgSpace(4*perPacket))
	n, oobn, flags, _, err := c.conn.ReadMsgUnix(packet, oob)
	if err != nil {
		return nil, nil, orEnded(err)
	}
	controls, err := unix.ParseSocketControlMessage(oob[:oobn])
	for i := range controls {
		fds, _ := unix.ParseUnixRights(&controls[i]) // another kind has none
		attached = append(attached, fds...)
	}
	switch {
	case err == nil && n == 0:
		err = errEnded
	case err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		err = errors.New("a packet of the other process is cut off: too large, or too few descriptors are free")
	}
	if err != nil {
		netio.CloseCopies(attached)
		return nil, nil, err
	}
	return packet[:n], attached, nil
}

// mapped returns the content of a file in memory.
func mapped(fd, size int) ([]byte, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	if stat.Size < int64(size) {
		return nil, io.ErrUnexpectedEOF
	}
	b, err := unix.Mmap(fd, 0, size, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_POPULATE)
	return b, os.NewSyscallError("mmap", err)
}

// release ends the use of the body.
func (m *message) release() {
	if m.body != nil {
		_ = unix.Munmap(m.body)
		m.body = nil
	}
}

func (c *conversation) close() { _ = c.conn.Close() }
