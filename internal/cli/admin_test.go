package cli

import (
	"testing"

	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/admin"
)

// TestAdminServer sends requests to a process through a Unix socket.
func TestAdminServer(t *testing.T) {
	p := startProcess(t, bridgeConfig(gameServer(t)))
	conn, err := gork.Dial(p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	p.await(t, "session established")
	client := admin.NewClient(admin.Address("unix:"+p.admin), "")
	var found admin.Sessions
	if err := client.Get(t.Context(), "/api/v1/sessions", &found); err != nil {
		t.Fatal(err)
	}
	if len(found.Sessions) != 1 || found.Sessions[0].Client.Address != conn.LocalAddr().String() {
		t.Errorf("sessions %+v", found.Sessions)
	}
	var done struct{}
	if err := client.Post(t.Context(), "/api/v1/sessions/"+found.Sessions[0].ID+"/kick", nil, &done); err != nil {
		t.Fatal(err)
	}
	if line := p.await(t, "session ended"); line["reason"] != "kicked" || line["by"] != "proxy" {
		t.Errorf("the session ended for %v by %v", line["reason"], line["by"])
	}
	if err := client.Post(t.Context(), "/api/v1/drain", nil, &done); err != nil {
		t.Fatal(err)
	}
	p.await(t, "tidegate stopped")
}
