package words

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"name", "address", "protocols", "max_mtu"}
	for key, want := range map[string]string{
		"neme": "name", "Name": "name", "adddress": "address", "addresses": "address", "protocol": "protocols",
		"max-mtu": "max_mtu", "mtu_max": "", "port": "", "": "",
	} {
		if got, ok := Nearest(key, known); ok != (want != "") || ok && got != want {
			t.Errorf("Nearest(%q) = %q, %v; want %q", key, got, ok, want)
		}
	}
}
