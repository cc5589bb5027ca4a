//go:build !linux

package testenv

// InMemory does nothing here.
func InMemory() (remove func()) { return func() {} }
