package main_test

// mayImport lists, for each package that docs/architecture.md describes, the packages of this module that it may
// import. A name that ends in /* stands for every package below, and "all" for every package. A package without a line
// imports none.
var mayImport = map[string]string{
	"main.go":      "internal/cli",
	"internal/cli": "all",
	"internal/daemon": "codec codec/nethernet proxy proxy/captures proxy/relay proxy/relay/recording ratelimit " +
		"internal/admin internal/banfile internal/capture internal/config internal/discovery internal/door " +
		"internal/each internal/filewatch internal/filter internal/fleet internal/fleet/view internal/joining " +
		"internal/signalling internal/webrtc internal/kernel internal/kernel/* internal/netio internal/pause " +
		"internal/policy internal/record internal/setup internal/stray internal/upstream",
	"codec/enet":            ofProtocols,
	"codec/raknet":          ofProtocols,
	"codec/riptide":         ofProtocols,
	"codec/rudp":            ofProtocols,
	"codec/rtype":           ofProtocols,
	"codec/nethernet":       "codec",
	"codec/internal/events": "codec",
	"codec/internal/prints": "codec/internal/saved",
	"codec/internal/saved":  "codec internal/record",
	"codec/endpoint":        "codec session internal/netio",
	"codec/codectest":       "codec codec/codectest/simnet internal/testkit/*",
	"proxy": "codec ratelimit session proxy/relay proxy/relay/admission proxy/relay/recording proxy/stats " +
		"internal/filter internal/kernel/* internal/netio internal/pause internal/stray internal/upstream",
	"proxy/captures": "proxy proxy/relay proxy/relay/recording session",
	"proxy/relay": "codec codec/nethernet internal/a2s internal/siphash internal/joining ratelimit session proxy/bridge " +
		"proxy/relay/* proxy/stats internal/enum internal/filter internal/kernel/* internal/netio " +
		"internal/proxyproto internal/record internal/stray internal/upstream internal/policy internal/source",
	"proxy/relay/admission": "codec ratelimit internal/filter proxy/stats internal/policy internal/source",
	"proxy/relay/recording": "codec session",
	"proxy/relay/saved": "codec internal/joining internal/proxyproto internal/record internal/upstream proxy/bridge " +
		"proxy/relay/admission proxy/stats internal/policy",
	"proxy/bridge":       "codec internal/enum proxy/stats internal/policy",
	"proxy/stats":        "codec ratelimit internal/kernel/*",
	"session":            "codec internal/linked internal/source",
	"ratelimit":          "internal/enum internal/source",
	"internal/registry":  "codec codec/explain internal/units",
	"internal/protocols": "codec codec/* internal/registry internal/units",
	"internal/policy":    "internal/enum",
	"internal/contexts":  "internal/regular",
	"internal/config": "codec codec/* internal/cidr internal/protocols internal/registry internal/regular " +
		"internal/each internal/units " +
		"internal/words internal/policy ratelimit",
	"internal/setup": "codec codec/* internal/policy proxy/relay proxy/relay/admission proxy/bridge session ratelimit " +
		"internal/a2s internal/config internal/each internal/filter internal/module internal/netio internal/cidr " +
		"internal/protocols internal/registry internal/regular internal/signalling internal/upstream",
	"internal/module":        "codec internal/policy proxy/bridge ratelimit",
	"internal/discovery":     "internal/each internal/filewatch internal/pause internal/regular internal/upstream",
	"internal/filter":        "codec ratelimit internal/enum internal/policy",
	"internal/upstream":      "internal/enum internal/record internal/policy",
	"internal/netio":         "internal/linked internal/record internal/source",
	"internal/kernel/flow":   "internal/kernel",
	"internal/kernel/shield": "internal/kernel",
	"internal/door":          "internal/pause",
	"internal/admin": "codec proxy proxy/* ratelimit session internal/capture internal/cidr internal/door " +
		"internal/filter " +
		"internal/fleet/view internal/pause internal/upstream internal/policy",
	"internal/capture": "proxy/relay/recording",
	"internal/decode": "codec codec/explain codec/nethernet internal/each internal/protocols internal/registry " +
		"internal/words",
	"internal/demo": "codec proxy proxy/* internal/admin codec/endpoint internal/each internal/lossylink internal/netio " +
		"internal/protocols internal/registry internal/table internal/top internal/words internal/policy",
	"internal/top":        "internal/admin internal/pause",
	"internal/doctor":     "internal/config internal/netio internal/protocols internal/setup internal/policy",
	"internal/signalling": "codec/nethernet internal/door internal/record internal/regular ratelimit internal/joining",
	"internal/webrtc":     "codec codec/nethernet",
	"internal/joining":    "codec/nethernet ratelimit internal/record internal/source",
	"internal/banfile":    "ratelimit internal/cidr internal/regular",
	"internal/fleet": "ratelimit internal/banfile internal/door internal/each internal/fleet/view internal/pause " +
		"internal/regular internal/source internal/stray",
	"internal/stray":             "internal/siphash",
	"internal/lossylink":         "internal/netio",
	"internal/testkit/oddplayer": "codec",
	"internal/testkit/scarce":    "internal/testkit/await",
	"internal/testkit/tunpath":   "internal/testkit/netlab",
	"packaging/manual":           "internal/cli internal/daemon packaging/manual/sections",
}

// ofProtocols is what the codec of one protocol may import.
const ofProtocols = "codec codec/explain codec/internal/* internal/enum internal/record internal/siphash internal/words"
