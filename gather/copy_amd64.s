//go:build !purego

#include "textflag.h"

// Row copies. All are leaf functions without a frame, so that a fault (a mapped
// file that was cut short) is an ordinary Go panic which the caller recovers.
//
// Registers, in all of them:
//   DI next byte of dst     SI table            DX bytes a row
//   BX next id to copy      CX rows to go       R8 next id to prefetch
//   R9 last id that exists  R10 lines to prefetch of a row, besides the last
//   R11, R12, AX work       R13 scratch line    R14 bytes waiting in it
//
// Loads stay within the row: a masked load that reaches past its end still
// waits for the line behind it, which nobody prefetched. That alone cost 20 %.

#define LOAD32 MOVLQSX
#define LOAD64 MOVQ

// ENTER loads the arguments. SIZE is that of an id.
#define ENTER(SIZE) \
	MOVQ dst+0(FP), DI; \
	MOVQ src+8(FP), SI; \
	MOVQ ids+16(FP), BX; \
	MOVQ n+24(FP), CX; \
	MOVQ avail+32(FP), R9; \
	MOVQ rowBytes+40(FP), DX; \
	MOVQ ahead+48(FP), R8; \
	MOVQ lines+56(FP), R10; \
	LEAQ -SIZE(BX)(R9*SIZE), R9; \
	LEAQ (BX)(R8*SIZE), R8

// AHEAD prefetches the first lines and the last of the row that R8 points to,
// or of the last row when there are no more. A line may be asked for twice:
// finding that out costs more.
#define AHEAD(LOAD, SIZE) \
	CMPQ R8, R9; \
	CMOVQHI R9, R8; \
	LOAD (R8), R11; \
	ADDQ $SIZE, R8; \
	IMULQ DX, R11; \
	ADDQ SI, R11; \
	LEAQ -1(R11)(DX*1), R12; \
	MOVQ R10, AX; \
	TESTQ AX, AX; \
	JZ last; \
line: \
	PREFETCHT0 (R11); \
	ADDQ $64, R11; \
	DECQ AX; \
	JNZ line; \
last: \
	PREFETCHT0 (R12)

// ROW sets R11 to the row to copy and R12 to its size.
#define ROW(LOAD, SIZE) \
	LOAD (BX), R11; \
	ADDQ $SIZE, BX; \
	IMULQ DX, R11; \
	ADDQ SI, R11; \
	MOVQ DX, R12

// PREFETCH is the body of prefetchRows.
#define PREFETCH(LOAD, SIZE) \
	MOVQ src+0(FP), SI; \
	MOVQ ids+8(FP), R8; \
	MOVQ n+16(FP), CX; \
	MOVQ rowBytes+24(FP), DX; \
	MOVQ lines+32(FP), R10; \
	LEAQ -SIZE(R8)(CX*SIZE), R9; \
row: \
	AHEAD(LOAD, SIZE); \
	DECQ CX; \
	JNZ row; \
	RET

// COPY256 copies rows of 32 bytes and more with ordinary stores; the last 32
// bytes of a row may overlap those before.
#define COPY256(LOAD, SIZE) \
	ENTER(SIZE); \
row: \
	AHEAD(LOAD, SIZE); \
	ROW(LOAD, SIZE); \
	SUBQ $128, R12; \
	JLT rest; \
big: \
	VMOVDQU (R11), Y0; \
	VMOVDQU 32(R11), Y1; \
	VMOVDQU 64(R11), Y2; \
	VMOVDQU 96(R11), Y3; \
	VMOVDQU Y0, (DI); \
	VMOVDQU Y1, 32(DI); \
	VMOVDQU Y2, 64(DI); \
	VMOVDQU Y3, 96(DI); \
	ADDQ $128, R11; \
	ADDQ $128, DI; \
	SUBQ $128, R12; \
	JGE big; \
rest: \
	ADDQ $96, R12; \
	JLT tail; \
small: \
	VMOVDQU (R11), Y0; \
	VMOVDQU Y0, (DI); \
	ADDQ $32, R11; \
	ADDQ $32, DI; \
	SUBQ $32, R12; \
	JGE small; \
tail: \
	ADDQ $32, R12; \
	JZ next; \
	VMOVDQU -32(R11)(R12*1), Y0; \
	VMOVDQU Y0, -32(DI)(R12*1); \
	ADDQ R12, DI; \
next: \
	DECQ CX; \
	JNZ row; \
	VZEROUPPER; \
	RET

// COPY512 copies rows of 64 bytes and more with ordinary stores.
#define COPY512(LOAD, SIZE) \
	ENTER(SIZE); \
row: \
	AHEAD(LOAD, SIZE); \
	ROW(LOAD, SIZE); \
	SUBQ $256, R12; \
	JLT rest; \
big: \
	VMOVDQU64 (R11), Z0; \
	VMOVDQU64 64(R11), Z1; \
	VMOVDQU64 128(R11), Z2; \
	VMOVDQU64 192(R11), Z3; \
	VMOVDQU64 Z0, (DI); \
	VMOVDQU64 Z1, 64(DI); \
	VMOVDQU64 Z2, 128(DI); \
	VMOVDQU64 Z3, 192(DI); \
	ADDQ $256, R11; \
	ADDQ $256, DI; \
	SUBQ $256, R12; \
	JGE big; \
rest: \
	ADDQ $192, R12; \
	JLT tail; \
small: \
	VMOVDQU64 (R11), Z0; \
	VMOVDQU64 Z0, (DI); \
	ADDQ $64, R11; \
	ADDQ $64, DI; \
	SUBQ $64, R12; \
	JGE small; \
tail: \
	ADDQ $64, R12; \
	JZ next; \
	VMOVDQU64 -64(R11)(R12*1), Z0; \
	VMOVDQU64 Z0, -64(DI)(R12*1); \
	ADDQ R12, DI; \
next: \
	DECQ CX; \
	JNZ row; \
	VZEROUPPER; \
	RET

// STREAM copies with non-temporal stores, which save reading dst before it is
// overwritten but must fill whole aligned vectors. dst is aligned to a vector.
// What is left of a row, less than a vector, waits in the scratch line
// (R13, which has a vector's room before and after) until the start of the next
// row fills it up. The caller copies what waits at the end: its size is returned.
#define STREAM(LOAD, SIZE, V, MOV, R0, R1, R2, R3) \
	ENTER(SIZE); \
	MOVQ scratch+64(FP), R13; \
	XORL R14, R14; \
row: \
	AHEAD(LOAD, SIZE); \
	ROW(LOAD, SIZE); \
	MOV (R11), R0; \
	MOV R0, (R13)(R14*1); \
	MOV (R13), R0; \
	VMOVNTDQ R0, (DI); \
	ADDQ $V, DI; \
	SUBQ R14, R11; \
	ADDQ $V, R11; \
	LEAQ (-5*V)(R12)(R14*1), R12; \
	TESTQ R12, R12; \
	JLT rest; \
big: \
	MOV (R11), R0; \
	MOV V(R11), R1; \
	MOV (2*V)(R11), R2; \
	MOV (3*V)(R11), R3; \
	VMOVNTDQ R0, (DI); \
	VMOVNTDQ R1, V(DI); \
	VMOVNTDQ R2, (2*V)(DI); \
	VMOVNTDQ R3, (3*V)(DI); \
	ADDQ $(4*V), R11; \
	ADDQ $(4*V), DI; \
	SUBQ $(4*V), R12; \
	JGE big; \
rest: \
	ADDQ $(3*V), R12; \
	JLT tail; \
small: \
	MOV (R11), R0; \
	VMOVNTDQ R0, (DI); \
	ADDQ $V, R11; \
	ADDQ $V, DI; \
	SUBQ $V, R12; \
	JGE small; \
tail: \
	ADDQ $V, R12; \
	MOVQ R12, R14; \
	MOV -V(R11)(R12*1), R0; \
	MOV R0, -V(R13)(R12*1); \
	DECQ CX; \
	JNZ row; \
	SFENCE; \
	VZEROUPPER; \
	MOVQ R14, left+72(FP); \
	RET

// func prefetchRows32(src unsafe.Pointer, ids *int32, n, rowBytes, lines int)
TEXT ·prefetchRows32(SB), NOSPLIT|NOFRAME, $0-40
	PREFETCH(LOAD32, 4)

// func prefetchRows64(src unsafe.Pointer, ids *int64, n, rowBytes, lines int)
TEXT ·prefetchRows64(SB), NOSPLIT|NOFRAME, $0-40
	PREFETCH(LOAD64, 8)

// func copyAVX2x32(dst, src unsafe.Pointer, ids *int32, n, avail, rowBytes, ahead, lines int)
TEXT ·copyAVX2x32(SB), NOSPLIT|NOFRAME, $0-64
	COPY256(LOAD32, 4)

// func copyAVX2x64(dst, src unsafe.Pointer, ids *int64, n, avail, rowBytes, ahead, lines int)
TEXT ·copyAVX2x64(SB), NOSPLIT|NOFRAME, $0-64
	COPY256(LOAD64, 8)

// func copyAVX512x32(dst, src unsafe.Pointer, ids *int32, n, avail, rowBytes, ahead, lines int)
TEXT ·copyAVX512x32(SB), NOSPLIT|NOFRAME, $0-64
	COPY512(LOAD32, 4)

// func copyAVX512x64(dst, src unsafe.Pointer, ids *int64, n, avail, rowBytes, ahead, lines int)
TEXT ·copyAVX512x64(SB), NOSPLIT|NOFRAME, $0-64
	COPY512(LOAD64, 8)

// func streamAVX2x32(dst, src unsafe.Pointer, ids *int32, n, avail, rowBytes, ahead, lines int, scratch unsafe.Pointer) (left int)
TEXT ·streamAVX2x32(SB), NOSPLIT|NOFRAME, $0-80
	STREAM(LOAD32, 4, 32, VMOVDQU, Y0, Y1, Y2, Y3)

// func streamAVX2x64(dst, src unsafe.Pointer, ids *int64, n, avail, rowBytes, ahead, lines int, scratch unsafe.Pointer) (left int)
TEXT ·streamAVX2x64(SB), NOSPLIT|NOFRAME, $0-80
	STREAM(LOAD64, 8, 32, VMOVDQU, Y0, Y1, Y2, Y3)

// func streamAVX512x32(dst, src unsafe.Pointer, ids *int32, n, avail, rowBytes, ahead, lines int, scratch unsafe.Pointer) (left int)
TEXT ·streamAVX512x32(SB), NOSPLIT|NOFRAME, $0-80
	STREAM(LOAD32, 4, 64, VMOVDQU64, Z0, Z1, Z2, Z3)

// func streamAVX512x64(dst, src unsafe.Pointer, ids *int64, n, avail, rowBytes, ahead, lines int, scratch unsafe.Pointer) (left int)
TEXT ·streamAVX512x64(SB), NOSPLIT|NOFRAME, $0-80
	STREAM(LOAD64, 8, 64, VMOVDQU64, Z0, Z1, Z2, Z3)
