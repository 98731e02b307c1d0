// Command bulk sends large messages from a server to a client over QUIC, or over TCP with a congestion control of the
// kernel. `tidegate-bench bulk --peer` runs it. Usage:
//
//	bulk server ADDRESS MESSAGES SIZE RATE
//	bulk client ADDRESS MESSAGES SIZE
//
// The client writes "joined", waits for a line on stdin, and asks for the messages. At the end it writes the time in
// nanoseconds. With BULK_TCP=bbr in the environment both use TCP, and the server the congestion control bbr.
package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/sys/unix"
)

const protocol = "tidegate-bulk"

func main() {
	if len(os.Args) < 5 {
		log.Fatal("usage: bulk server ADDRESS MESSAGES SIZE RATE | client ADDRESS MESSAGES SIZE")
	}
	messages, size := number(3), number(4)
	var err error
	if os.Args[1] == "server" {
		err = serve(os.Args[2], messages, size, number(5))
	} else {
		err = fetch(os.Args[2], messages, size)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func number(argument int) int {
	n, err := strconv.Atoi(os.Args[argument])
	if err != nil {
		log.Fatal(err)
	}
	return n
}

// serve sends one client the messages after its first byte.
func serve(address string, messages, size, rate int) error {
	stream, err := accept(address)
	if err != nil {
		return err
	}
	if _, err := stream.Read(make([]byte, 1)); err != nil {
		return err
	}
	message, began := make([]byte, size), time.Now()
	for i := range messages {
		if rate > 0 {
			time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(rate))))
		}
		if _, err := stream.Write(message); err != nil {
			return err
		}
	}
	select {} // the benchmark ends the process
}

// fetch takes the messages.
func fetch(address string, messages, size int) error {
	stream, err := dial(address)
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode("joined"); err != nil {
		return err
	}
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	began := time.Now()
	if _, err := stream.Write([]byte{1}); err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, stream, int64(messages)*int64(size)); err != nil {
		return err
	}
	return out.Encode(time.Since(began))
}

func accept(address string) (io.ReadWriter, error) {
	if control := os.Getenv("BULK_TCP"); control != "" {
		return acceptTCP(address, control)
	}
	certificate, err := newCertificate()
	if err != nil {
		return nil, err
	}
	l, err := quic.ListenAddr(address, &tls.Config{
		Certificates: []tls.Certificate{certificate}, NextProtos: []string{protocol},
	}, nil)
	if err != nil {
		return nil, err
	}
	conn, err := l.Accept(context.Background())
	if err != nil {
		return nil, err
	}
	stream, err := conn.AcceptStream(context.Background())
	if err != nil {
		return nil, err
	}
	_, err = stream.Read(make([]byte, 1)) // it opened the stream
	return stream, err
}

func acceptTCP(address, control string) (io.ReadWriter, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		err2 := c.Control(func(fd uintptr) {
			err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, control)
		})
		if err2 != nil {
			err = err2
		}
		return err
	}}
	l, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("congestion control %q: %w", control, err)
	}
	return l.Accept()
}

func dial(address string) (io.ReadWriter, error) {
	if os.Getenv("BULK_TCP") != "" {
		return net.Dial("tcp", address)
	}
	// The windows of the receiver are no bound, as in the other transfers.
	conn, err := quic.DialAddr(context.Background(), address,
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}, &quic.Config{
			InitialStreamReceiveWindow: 32 << 20, MaxStreamReceiveWindow: 32 << 20,
			InitialConnectionReceiveWindow: 32 << 20, MaxConnectionReceiveWindow: 32 << 20,
		})
	if err != nil {
		return nil, err
	}
	stream, err := conn.OpenStream()
	if err != nil {
		return nil, err
	}
	_, err = stream.Write([]byte{0})
	return stream, err
}

// newCertificate makes a certificate, which the client does not check.
func newCertificate() (c tls.Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
