//go:build !amd64 || purego

package sampling

func setSubset16(have bool) bool { return !have }
