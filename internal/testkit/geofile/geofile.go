// Package geofile writes small MaxMind databases, for tests.
package geofile

import (
	"bytes"
	"net"
	"testing"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
)

// Countries returns a database in the format of GeoLite2 Country: ISO 3166 codes by prefix.
func Countries(t testing.TB, byPrefix map[string]string) []byte {
	t.Helper()
	records := make(map[string]mmdbtype.DataType)
	for prefix, code := range byPrefix {
		records[prefix] = mmdbtype.Map{"country": mmdbtype.Map{"iso_code": mmdbtype.String(code)}}
	}
	return write(t, "GeoLite2-Country", records)
}

// Network is an autonomous system: its number and organization.
type Network struct {
	Number uint32
	Holder string
}

// Networks returns a database in the format of GeoLite2 ASN: autonomous systems by prefix.
func Networks(t testing.TB, byPrefix map[string]Network) []byte {
	t.Helper()
	records := make(map[string]mmdbtype.DataType)
	for prefix, network := range byPrefix {
		records[prefix] = mmdbtype.Map{
			"autonomous_system_number":       mmdbtype.Uint32(network.Number),
			"autonomous_system_organization": mmdbtype.String(network.Holder),
		}
	}
	return write(t, "GeoLite2-ASN", records)
}

func write(t testing.TB, kind string, records map[string]mmdbtype.DataType) []byte {
	t.Helper()
	tree, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: kind, IncludeReservedNetworks: true})
	if err != nil {
		t.Fatal(err)
	}
	for prefix, record := range records {
		_, network, err := net.ParseCIDR(prefix)
		if err != nil {
			t.Fatal(err)
		}
		if err := tree.Insert(network, record); err != nil {
			t.Fatal(err)
		}
	}
	var file bytes.Buffer
	if _, err := tree.WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}
