// Package setup makes of a configuration what a proxy is made of: proxy.Settings with their listeners, routes and upstreams, the
// protocols by their names, and the rules with the files that they are read from. It also tells config what it must know of
// each protocol. It runs nothing.
//
// Start with Load, Settings and the list named protocols.
package setup
