package signalling

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"

	"tidegate/internal/regular"
)

// Certificate is a TLS certificate in two PEM files, which may be renewed at any time.
type Certificate struct {
	chain, key string
	current    atomic.Pointer[tls.Certificate]
}

// LoadCertificate reads the files.
func LoadCertificate(chain, key string) (*Certificate, error) {
	c := &Certificate{chain: chain, key: key}
	return c, c.Load()
}

// Load reads the files again. After an error, the certificate stays as it was.
func (c *Certificate) Load() error {
	chain, err := regular.ReadFile(c.chain)
	if err != nil {
		return fmt.Errorf("read the certificate: %w", err)
	}
	key, err := regular.ReadFile(c.key)
	if err != nil {
		return fmt.Errorf("read the certificate's key: %w", err)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return fmt.Errorf("use the certificate %s: %w", c.chain, err)
	}
	c.current.Store(&pair)
	return nil
}

// Get returns the newest certificate, for Options.Certificate.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.current.Load(), nil
}
