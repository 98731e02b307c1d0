// Package nethernet plays real WebRTC peers through the parts of Tidegate that NetherNet needs: pion as a client and as
// a server, with a small edge between them that only tests have. It is a module of its own, so that the product has
// none of pion's code. It contains only tests.
package nethernet
