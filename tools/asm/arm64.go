package main

import (
	"bytes"
	"fmt"
)

// arm64Prefetch returns internal/prefetch for arm64, function by function as in buildPrefetch.
func arm64Prefetch() []byte {
	a := &arm64{}
	a.printf("// %s\n\n//go:build !purego\n\n#include \"textflag.h\"\n", warning)
	for _, e := range elements {
		a.element(e)
	}
	a.rows(4)
	a.rows(8)
	a.prefetchRange()
	return a.Bytes()
}

type arm64 struct{ bytes.Buffer }

func (a *arm64) printf(format string, args ...any) { fmt.Fprintf(a, format, args...) }

// op writes an instruction for each of the registers, whose number the format takes wherever it says %[1]d.
func (a *arm64) op(format string, registers ...int) {
	if len(registers) == 0 {
		a.WriteString("\t" + format + "\n")
	}
	for _, r := range registers {
		a.printf("\t"+format+"\n", r)
	}
}

// function writes the head of a function and loads its arguments, each given as instruction and name, to R0, R1 and so
// on.
func (a *arm64) function(name, signature string, size int, args ...string) {
	a.printf("\n// func %s%s\nTEXT ·%s(SB), NOSPLIT|NOFRAME, $0-%d\n", name, signature, name, size)
	for i, arg := range args {
		a.op(fmt.Sprintf(arg, "(FP), R"+fmt.Sprint(i)))
	}
}

func load(idSize int) string {
	return fmt.Sprintf("MOV%s.P %d(R1), R%%[1]d", map[int]string{4: "W", 8: "D"}[idSize], idSize)
}

func (a *arm64) element(e element) {
	args, size := []string{"MOVD base+0%s", "MOVD ids_base+8%s", "MOVD ids_len+16%s"}, 32
	if e.hash {
		args, size = append(args, "MOVBU shift+32%s"), 33
	}
	a.function(e.name, e.signature(), size, args...)
	if e.hash {
		a.op(fmt.Sprintf("MOVD $%#X, R4", uint64(multiplier)))
	}
	step := func(r ...int) {
		a.op(load(e.idSize), r...)
		if e.hash {
			a.op("MUL R4, R%[1]d, R%[1]d", r...)
			a.op("LSR R3, R%[1]d, R%[1]d", r...)
		}
		a.op(fmt.Sprintf("ADD R%%[1]d<<%d, R0, R%%[1]d", e.logSize), r...)
		a.op("PRFM (R%d), PLDL1KEEP", r...)
		a.op(fmt.Sprintf("SUBS $%d, R2, R2", len(r)))
	}
	a.printf("\tSUBS $4, R2, R2\n\tBLT tail\n\nfour:\n")
	step(8, 9, 10, 11)
	a.printf("\tBGE four\n\ntail:\n\tADDS $4, R2, R2\n\tBLE done\n\none:\n")
	step(8)
	a.printf("\tBNE one\n\ndone:\n\tRET\n")
}

func (a *arm64) rows(idSize int) {
	a.function(fmt.Sprintf("Rows%d", 8*idSize), rowsSignature(idSize), 48, "MOVD base+0%s", "MOVD ids_base+8%s",
		"MOVD ids_len+16%s", "MOVD rowBytes+32%s", "MOVD lines+40%s")
	a.printf("\tCMP $0, R2\n\tBLE done\n\tSUB $1, R3, R9\n\nnext:\n")
	a.op(load(idSize), 5)
	a.printf("\tMADD R3, R0, R5, R6\n\tADD R9, R6, R7\n\tCBZ R4, last\n\tMOVD R4, R8\n\nline:\n")
	a.printf("\tPRFM (R6), PLDL1KEEP\n\tADD $64, R6, R6\n\tSUBS $1, R8, R8\n\tBNE line\n\nlast:\n")
	a.printf("\tPRFM (R7), PLDL1KEEP\n\tSUBS $1, R2, R2\n\tBNE next\n\ndone:\n\tRET\n")
}

func (a *arm64) prefetchRange() {
	a.function("Range", "(p unsafe.Pointer, n int)", 16, "MOVD p+0%s", "MOVD n+8%s")
	a.printf("\tCMP $0, R1\n\tBLE done\n\tADD R0, R1, R1\n\tSUB $1, R1, R1 // last byte\n\tAND $~63, R0, R0\n\nline:\n")
	a.printf("\tPRFM (R0), PLDL1KEEP\n\tADD $64, R0, R0\n\tCMP R1, R0\n\tBLS line\n\ndone:\n\tRET\n")
}
