package admin

import "tidegate/proxy"

// Metrics of what the kernel does in place of user space.
var (
	filtered  = counter("kernel_filtered_total", "Datagrams that filters in the kernel judged.", "hook", "verdict")
	known     = gauge("kernel_known", "Clients whom filters in the kernel tell from strangers.")
	forwarded = counter("kernel_forwarded_total", "Relayed datagrams that the kernel forwarded; they are in datagrams_total too.", "side")
	limited   = counter("kernel_limited_total", "Relayed datagrams of clients that the kernel dropped beyond a limit per session.")
)

func (out metricsOf) kernel(k *proxy.KernelFigures) {
	for _, f := range k.Filtered {
		out.count(filtered, f.Datagrams, f.Hook, f.Verdict)
	}
	out.set(known, float64(k.Known))
	out.count(forwarded, k.ForwardedUp.Messages, "client")
	out.count(forwarded, k.ForwardedDown.Messages, "server")
	out.count(limited, k.Limited)
}
