//go:build !purego

#include "textflag.h"

// Every function here is the same loop: load an id, form the address of its
// element, prefetch it. Four ids a turn, then the rest one by one. Leaf
// functions without a frame: nothing is spilled, and a fault while reading the
// ids is an ordinary Go fault.

// func Index4(base unsafe.Pointer, pos []int64)
TEXT ·Index4(SB), NOSPLIT|NOFRAME, $0-32
	MOVQ base+0(FP), SI
	MOVQ pos_base+8(FP), BX
	MOVQ pos_len+16(FP), DX
	SUBQ $4, DX
	JLT tail

four:
	MOVQ 0(BX), R8
	MOVQ 8(BX), R9
	MOVQ 16(BX), R10
	MOVQ 24(BX), R11
	PREFETCHT0 (SI)(R8*4)
	PREFETCHT0 (SI)(R9*4)
	PREFETCHT0 (SI)(R10*4)
	PREFETCHT0 (SI)(R11*4)
	ADDQ $32, BX
	SUBQ $4, DX
	JGE four

tail:
	ADDQ $4, DX
	JLE done

one:
	MOVQ (BX), R8
	PREFETCHT0 (SI)(R8*4)
	ADDQ $8, BX
	DECQ DX
	JNZ one

done:
	RET

// func Index8(base unsafe.Pointer, pos []int64)
TEXT ·Index8(SB), NOSPLIT|NOFRAME, $0-32
	MOVQ base+0(FP), SI
	MOVQ pos_base+8(FP), BX
	MOVQ pos_len+16(FP), DX
	SUBQ $4, DX
	JLT tail

four:
	MOVQ 0(BX), R8
	MOVQ 8(BX), R9
	MOVQ 16(BX), R10
	MOVQ 24(BX), R11
	PREFETCHT0 (SI)(R8*8)
	PREFETCHT0 (SI)(R9*8)
	PREFETCHT0 (SI)(R10*8)
	PREFETCHT0 (SI)(R11*8)
	ADDQ $32, BX
	SUBQ $4, DX
	JGE four

tail:
	ADDQ $4, DX
	JLE done

one:
	MOVQ (BX), R8
	PREFETCHT0 (SI)(R8*8)
	ADDQ $8, BX
	DECQ DX
	JNZ one

done:
	RET

// func Node32x4(base unsafe.Pointer, ids []int32)
TEXT ·Node32x4(SB), NOSPLIT|NOFRAME, $0-32
	MOVQ base+0(FP), SI
	MOVQ ids_base+8(FP), BX
	MOVQ ids_len+16(FP), DX
	SUBQ $4, DX
	JLT tail

four:
	MOVLQSX 0(BX), R8
	MOVLQSX 4(BX), R9
	MOVLQSX 8(BX), R10
	MOVLQSX 12(BX), R11
	PREFETCHT0 (SI)(R8*4)
	PREFETCHT0 (SI)(R9*4)
	PREFETCHT0 (SI)(R10*4)
	PREFETCHT0 (SI)(R11*4)
	ADDQ $16, BX
	SUBQ $4, DX
	JGE four

tail:
	ADDQ $4, DX
	JLE done

one:
	MOVLQSX (BX), R8
	PREFETCHT0 (SI)(R8*4)
	ADDQ $4, BX
	DECQ DX
	JNZ one

done:
	RET

// func Node32x8(base unsafe.Pointer, ids []int32)
TEXT ·Node32x8(SB), NOSPLIT|NOFRAME, $0-32
	MOVQ base+0(FP), SI
	MOVQ ids_base+8(FP), BX
	MOVQ ids_len+16(FP), DX
	SUBQ $4, DX
	JLT tail

four:
	MOVLQSX 0(BX), R8
	MOVLQSX 4(BX), R9
	MOVLQSX 8(BX), R10
	MOVLQSX 12(BX), R11
	PREFETCHT0 (SI)(R8*8)
	PREFETCHT0 (SI)(R9*8)
	PREFETCHT0 (SI)(R10*8)
	PREFETCHT0 (SI)(R11*8)
	ADDQ $16, BX
	SUBQ $4, DX
	JGE four

tail:
	ADDQ $4, DX
	JLE done

one:
	MOVLQSX (BX), R8
	PREFETCHT0 (SI)(R8*8)
	ADDQ $4, BX
	DECQ DX
	JNZ one

done:
	RET

// func Hash32x8(base unsafe.Pointer, ids []int32, shift uint8)
TEXT ·Hash32x8(SB), NOSPLIT|NOFRAME, $0-33
	MOVQ base+0(FP), SI
	MOVQ ids_base+8(FP), BX
	MOVQ ids_len+16(FP), DX
	MOVBLZX shift+32(FP), CX
	MOVQ $0x9E3779B97F4A7C15, DI
	SUBQ $4, DX
	JLT tail

four:
	MOVLQSX 0(BX), R8
	MOVLQSX 4(BX), R9
	MOVLQSX 8(BX), R10
	MOVLQSX 12(BX), R11
	IMULQ DI, R8
	IMULQ DI, R9
	IMULQ DI, R10
	IMULQ DI, R11
	SHRQ CX, R8
	SHRQ CX, R9
	SHRQ CX, R10
	SHRQ CX, R11
	PREFETCHT0 (SI)(R8*8)
	PREFETCHT0 (SI)(R9*8)
	PREFETCHT0 (SI)(R10*8)
	PREFETCHT0 (SI)(R11*8)
	ADDQ $16, BX
	SUBQ $4, DX
	JGE four

tail:
	ADDQ $4, DX
	JLE done

one:
	MOVLQSX (BX), R8
	IMULQ DI, R8
	SHRQ CX, R8
	PREFETCHT0 (SI)(R8*8)
	ADDQ $4, BX
	DECQ DX
	JNZ one

done:
	RET

// func Hash64x16(base unsafe.Pointer, ids []int64, shift uint8)
TEXT ·Hash64x16(SB), NOSPLIT|NOFRAME, $0-33
	MOVQ base+0(FP), SI
	MOVQ ids_base+8(FP), BX
	MOVQ ids_len+16(FP), DX
	MOVBLZX shift+32(FP), CX
	MOVQ $0x9E3779B97F4A7C15, DI
	SUBQ $4, DX
	JLT tail

four:
	MOVQ 0(BX), R8
	MOVQ 8(BX), R9
	MOVQ 16(BX), R10
	MOVQ 24(BX), R11
	IMULQ DI, R8
	IMULQ DI, R9
	IMULQ DI, R10
	IMULQ DI, R11
	SHRQ CX, R8
	SHRQ CX, R9
	SHRQ CX, R10
	SHRQ CX, R11
	SHLQ $4, R8
	SHLQ $4, R9
	SHLQ $4, R10
	SHLQ $4, R11
	PREFETCHT0 (SI)(R8*1)
	PREFETCHT0 (SI)(R9*1)
	PREFETCHT0 (SI)(R10*1)
	PREFETCHT0 (SI)(R11*1)
	ADDQ $32, BX
	SUBQ $4, DX
	JGE four

tail:
	ADDQ $4, DX
	JLE done

one:
	MOVQ (BX), R8
	IMULQ DI, R8
	SHRQ CX, R8
	SHLQ $4, R8
	PREFETCHT0 (SI)(R8*1)
	ADDQ $8, BX
	DECQ DX
	JNZ one

done:
	RET

// func Range(p unsafe.Pointer, n int)
TEXT ·Range(SB), NOSPLIT|NOFRAME, $0-16
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), DX
	TESTQ DX, DX
	JLE done
	LEAQ -1(SI)(DX*1), DX // last byte
	ANDQ $-64, SI

line:
	PREFETCHT0 (SI)
	ADDQ $64, SI
	CMPQ SI, DX
	JLS line

done:
	RET
