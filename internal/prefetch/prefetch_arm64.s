//go:build !purego

#include "textflag.h"

// Every function here is the same loop: load an id, form the address of its
// element, prefetch it. Four ids a turn, then the rest one by one. Leaf
// functions without a frame: nothing is spilled, and a fault while reading the
// ids is an ordinary Go fault.

// func Index4(base unsafe.Pointer, pos []int64)
TEXT ·Index4(SB), NOSPLIT|NOFRAME, $0-32
	MOVD base+0(FP), R0
	MOVD pos_base+8(FP), R1
	MOVD pos_len+16(FP), R2
	SUBS $4, R2, R2
	BLT tail

four:
	MOVD.P 8(R1), R8
	MOVD.P 8(R1), R9
	MOVD.P 8(R1), R10
	MOVD.P 8(R1), R11
	ADD R8<<2, R0, R8
	ADD R9<<2, R0, R9
	ADD R10<<2, R0, R10
	ADD R11<<2, R0, R11
	PRFM (R8), PLDL1KEEP
	PRFM (R9), PLDL1KEEP
	PRFM (R10), PLDL1KEEP
	PRFM (R11), PLDL1KEEP
	SUBS $4, R2, R2
	BGE four

tail:
	ADDS $4, R2, R2
	BLE done

one:
	MOVD.P 8(R1), R8
	ADD R8<<2, R0, R8
	PRFM (R8), PLDL1KEEP
	SUBS $1, R2, R2
	BNE one

done:
	RET

// func Index8(base unsafe.Pointer, pos []int64)
TEXT ·Index8(SB), NOSPLIT|NOFRAME, $0-32
	MOVD base+0(FP), R0
	MOVD pos_base+8(FP), R1
	MOVD pos_len+16(FP), R2
	SUBS $4, R2, R2
	BLT tail

four:
	MOVD.P 8(R1), R8
	MOVD.P 8(R1), R9
	MOVD.P 8(R1), R10
	MOVD.P 8(R1), R11
	ADD R8<<3, R0, R8
	ADD R9<<3, R0, R9
	ADD R10<<3, R0, R10
	ADD R11<<3, R0, R11
	PRFM (R8), PLDL1KEEP
	PRFM (R9), PLDL1KEEP
	PRFM (R10), PLDL1KEEP
	PRFM (R11), PLDL1KEEP
	SUBS $4, R2, R2
	BGE four

tail:
	ADDS $4, R2, R2
	BLE done

one:
	MOVD.P 8(R1), R8
	ADD R8<<3, R0, R8
	PRFM (R8), PLDL1KEEP
	SUBS $1, R2, R2
	BNE one

done:
	RET

// func Node32x4(base unsafe.Pointer, ids []int32)
TEXT ·Node32x4(SB), NOSPLIT|NOFRAME, $0-32
	MOVD base+0(FP), R0
	MOVD ids_base+8(FP), R1
	MOVD ids_len+16(FP), R2
	SUBS $4, R2, R2
	BLT tail

four:
	MOVW.P 4(R1), R8
	MOVW.P 4(R1), R9
	MOVW.P 4(R1), R10
	MOVW.P 4(R1), R11
	ADD R8<<2, R0, R8
	ADD R9<<2, R0, R9
	ADD R10<<2, R0, R10
	ADD R11<<2, R0, R11
	PRFM (R8), PLDL1KEEP
	PRFM (R9), PLDL1KEEP
	PRFM (R10), PLDL1KEEP
	PRFM (R11), PLDL1KEEP
	SUBS $4, R2, R2
	BGE four

tail:
	ADDS $4, R2, R2
	BLE done

one:
	MOVW.P 4(R1), R8
	ADD R8<<2, R0, R8
	PRFM (R8), PLDL1KEEP
	SUBS $1, R2, R2
	BNE one

done:
	RET

// func Node32x8(base unsafe.Pointer, ids []int32)
TEXT ·Node32x8(SB), NOSPLIT|NOFRAME, $0-32
	MOVD base+0(FP), R0
	MOVD ids_base+8(FP), R1
	MOVD ids_len+16(FP), R2
	SUBS $4, R2, R2
	BLT tail

four:
	MOVW.P 4(R1), R8
	MOVW.P 4(R1), R9
	MOVW.P 4(R1), R10
	MOVW.P 4(R1), R11
	ADD R8<<3, R0, R8
	ADD R9<<3, R0, R9
	ADD R10<<3, R0, R10
	ADD R11<<3, R0, R11
	PRFM (R8), PLDL1KEEP
	PRFM (R9), PLDL1KEEP
	PRFM (R10), PLDL1KEEP
	PRFM (R11), PLDL1KEEP
	SUBS $4, R2, R2
	BGE four

tail:
	ADDS $4, R2, R2
	BLE done

one:
	MOVW.P 4(R1), R8
	ADD R8<<3, R0, R8
	PRFM (R8), PLDL1KEEP
	SUBS $1, R2, R2
	BNE one

done:
	RET

// func Hash32x8(base unsafe.Pointer, ids []int32, shift uint8)
TEXT ·Hash32x8(SB), NOSPLIT|NOFRAME, $0-33
	MOVD base+0(FP), R0
	MOVD ids_base+8(FP), R1
	MOVD ids_len+16(FP), R2
	MOVBU shift+32(FP), R3
	MOVD $0x9E3779B97F4A7C15, R4
	SUBS $4, R2, R2
	BLT tail

four:
	MOVW.P 4(R1), R8
	MOVW.P 4(R1), R9
	MOVW.P 4(R1), R10
	MOVW.P 4(R1), R11
	MUL R4, R8, R8
	MUL R4, R9, R9
	MUL R4, R10, R10
	MUL R4, R11, R11
	LSR R3, R8, R8
	LSR R3, R9, R9
	LSR R3, R10, R10
	LSR R3, R11, R11
	ADD R8<<3, R0, R8
	ADD R9<<3, R0, R9
	ADD R10<<3, R0, R10
	ADD R11<<3, R0, R11
	PRFM (R8), PLDL1KEEP
	PRFM (R9), PLDL1KEEP
	PRFM (R10), PLDL1KEEP
	PRFM (R11), PLDL1KEEP
	SUBS $4, R2, R2
	BGE four

tail:
	ADDS $4, R2, R2
	BLE done

one:
	MOVW.P 4(R1), R8
	MUL R4, R8, R8
	LSR R3, R8, R8
	ADD R8<<3, R0, R8
	PRFM (R8), PLDL1KEEP
	SUBS $1, R2, R2
	BNE one

done:
	RET

// func Hash64x16(base unsafe.Pointer, ids []int64, shift uint8)
TEXT ·Hash64x16(SB), NOSPLIT|NOFRAME, $0-33
	MOVD base+0(FP), R0
	MOVD ids_base+8(FP), R1
	MOVD ids_len+16(FP), R2
	MOVBU shift+32(FP), R3
	MOVD $0x9E3779B97F4A7C15, R4
	SUBS $4, R2, R2
	BLT tail

four:
	MOVD.P 8(R1), R8
	MOVD.P 8(R1), R9
	MOVD.P 8(R1), R10
	MOVD.P 8(R1), R11
	MUL R4, R8, R8
	MUL R4, R9, R9
	MUL R4, R10, R10
	MUL R4, R11, R11
	LSR R3, R8, R8
	LSR R3, R9, R9
	LSR R3, R10, R10
	LSR R3, R11, R11
	ADD R8<<4, R0, R8
	ADD R9<<4, R0, R9
	ADD R10<<4, R0, R10
	ADD R11<<4, R0, R11
	PRFM (R8), PLDL1KEEP
	PRFM (R9), PLDL1KEEP
	PRFM (R10), PLDL1KEEP
	PRFM (R11), PLDL1KEEP
	SUBS $4, R2, R2
	BGE four

tail:
	ADDS $4, R2, R2
	BLE done

one:
	MOVD.P 8(R1), R8
	MUL R4, R8, R8
	LSR R3, R8, R8
	ADD R8<<4, R0, R8
	PRFM (R8), PLDL1KEEP
	SUBS $1, R2, R2
	BNE one

done:
	RET

// func Range(p unsafe.Pointer, n int)
TEXT ·Range(SB), NOSPLIT|NOFRAME, $0-16
	MOVD p+0(FP), R0
	MOVD n+8(FP), R1
	CMP $0, R1
	BLE done
	ADD R0, R1, R1
	SUB $1, R1, R1 // last byte
	AND $~63, R0, R0

line:
	PRFM (R0), PLDL1KEEP
	ADD $64, R0, R0
	CMP R1, R0
	BLS line

done:
	RET
