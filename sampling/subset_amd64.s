//go:build !purego

#include "textflag.h"

// (1 .. 16) * 0x9E3779B97F4A7C15
DATA goldens<>+0(SB)/8, $0x9E3779B97F4A7C15
DATA goldens<>+8(SB)/8, $0x3C6EF372FE94F82A
DATA goldens<>+16(SB)/8, $0xDAA66D2C7DDF743F
DATA goldens<>+24(SB)/8, $0x78DDE6E5FD29F054
DATA goldens<>+32(SB)/8, $0x1715609F7C746C69
DATA goldens<>+40(SB)/8, $0xB54CDA58FBBEE87E
DATA goldens<>+48(SB)/8, $0x538454127B096493
DATA goldens<>+56(SB)/8, $0xF1BBCDCBFA53E0A8
DATA goldens<>+64(SB)/8, $0x8FF34785799E5CBD
DATA goldens<>+72(SB)/8, $0x2E2AC13EF8E8D8D2
DATA goldens<>+80(SB)/8, $0xCC623AF8783354E7
DATA goldens<>+88(SB)/8, $0x6A99B4B1F77DD0FC
DATA goldens<>+96(SB)/8, $0x08D12E6B76C84D11
DATA goldens<>+104(SB)/8, $0xA708A824F612C926
DATA goldens<>+112(SB)/8, $0x454021DE755D453B
DATA goldens<>+120(SB)/8, $0xE3779B97F4A7C150
GLOBL goldens<>(SB), RODATA|NOPTR, $128

// 1 .. 16
DATA counts<>+0(SB)/8, $1
DATA counts<>+8(SB)/8, $2
DATA counts<>+16(SB)/8, $3
DATA counts<>+24(SB)/8, $4
DATA counts<>+32(SB)/8, $5
DATA counts<>+40(SB)/8, $6
DATA counts<>+48(SB)/8, $7
DATA counts<>+56(SB)/8, $8
DATA counts<>+64(SB)/8, $9
DATA counts<>+72(SB)/8, $10
DATA counts<>+80(SB)/8, $11
DATA counts<>+88(SB)/8, $12
DATA counts<>+96(SB)/8, $13
DATA counts<>+104(SB)/8, $14
DATA counts<>+112(SB)/8, $15
DATA counts<>+120(SB)/8, $16
GLOBL counts<>(SB), RODATA|NOPTR, $128

// 0 .. 15
DATA lanes<>+0(SB)/8, $0x0000000100000000
DATA lanes<>+8(SB)/8, $0x0000000300000002
DATA lanes<>+16(SB)/8, $0x0000000500000004
DATA lanes<>+24(SB)/8, $0x0000000700000006
DATA lanes<>+32(SB)/8, $0x0000000900000008
DATA lanes<>+40(SB)/8, $0x0000000B0000000A
DATA lanes<>+48(SB)/8, $0x0000000D0000000C
DATA lanes<>+56(SB)/8, $0x0000000F0000000E
GLOBL lanes<>(SB), RODATA|NOPTR, $64

// z = mix64(z), with the two multipliers in Z3 and Z4
#define MIX(z, tmp) \
	VPSRLQ  $30, z, tmp \
	VPXORQ  tmp, z, z   \
	VPMULLQ Z3, z, z    \
	VPSRLQ  $27, z, tmp \
	VPXORQ  tmp, z, z   \
	VPMULLQ Z4, z, z    \
	VPSRLQ  $31, z, tmp \
	VPXORQ  tmp, z, z

// z = z * n >> 64, for n below 2^32
#define BOUND(z, n, tmp) \
	VPSRLQ   $32, z, tmp \
	VPMULUDQ n, tmp, tmp \
	VPMULUDQ n, z, z     \
	VPSRLQ   $32, z, z   \
	VPADDQ   tmp, z, z   \
	VPSRLQ   $32, z, z

// One step of a bitonic sort of Z1: Z2 has each lane's partner; the lanes in mask keep the greater.
#define KEEP(mask) \
	MOVL    $mask, R9      \
	KMOVW   R9, K1         \
	VPMINUD Z2, Z1, Z3     \
	VPMAXUD Z2, Z1, K1, Z3 \
	VMOVDQA64 Z3, Z1

#define STEP1(mask) \
	VPSHUFD $0xB1, Z1, Z2 \
	KEEP(mask)

#define STEP2(mask) \
	VPSHUFD $0x4E, Z1, Z2 \
	KEEP(mask)

#define STEP4(mask) \
	VSHUFI64X2 $0xB1, Z1, Z1, Z2 \
	KEEP(mask)

#define STEP8(mask) \
	VSHUFI64X2 $0x4E, Z1, Z1, Z2 \
	KEEP(mask)

// func subset16(pos *int64, k int, stream uint64, start int64, n uint64)
TEXT ·subset16(SB), NOSPLIT, $0-40
	MOVQ pos+0(FP), DI
	MOVQ k+8(FP), CX
	MOVQ stream+16(FP), AX
	MOVQ start+24(FP), DX
	MOVQ n+32(FP), BX
	MOVL $1, R8
	SHLL CX, R8
	DECL R8
	KMOVW R8, K7            // lanes in use
	SUBQ CX, BX             // n - k

	// draw j in lane j, a number of 0 .. n-k+j
	VPBROADCASTQ AX, Z0
	VPADDQ goldens<>+0(SB), Z0, Z1
	VPADDQ goldens<>+64(SB), Z0, Z2
	MOVQ $0xBF58476D1CE4E5B9, R9
	VPBROADCASTQ R9, Z3
	MOVQ $0x94D049BB133111EB, R9
	VPBROADCASTQ R9, Z4
	MIX(Z1, Z5)
	MIX(Z2, Z6)
	VPBROADCASTQ BX, Z0
	VPADDQ counts<>+0(SB), Z0, Z7
	VPADDQ counts<>+64(SB), Z0, Z8
	BOUND(Z1, Z7, Z5)
	BOUND(Z2, Z8, Z6)
	VPMOVQD Z1, Y1
	VPMOVQD Z2, Y2
	VINSERTI64X4 $1, Y2, Z1, Z1

	// Draw j is in the set if an earlier draw equals it (it is in the set, at the latest by then), or if it is n-k+m of a
	// draw m < j that was replaced by that.
	VPCONFLICTD Z1, Z2
	VPTESTMD Z2, Z2, K7, K1
	KMOVW K1, R8            // replaced
	TESTL R8, R8
	JZ sort
	VPBROADCASTD BX, Z10
	VPSUBD Z10, Z1, Z11     // m, or a great number
	VMOVDQU32 lanes<>(SB), Z12
	VPCMPUD $1, Z12, Z11, K7, K2
	KMOVW K2, R10
	TESTL R10, R10
	JZ replace
	VPTERNLOGD $0xFF, Z13, Z13, Z13
	VPSRLD $31, Z13, Z13    // 1

again:
	VPBROADCASTD R8, Z14
	VPSRLVD Z11, Z14, Z14
	VPTESTMD Z13, Z14, K2, K3
	KMOVW K3, R9
	ORL R8, R9
	CMPL R9, R8
	JE replace
	MOVL R9, R8
	JMP again

replace:
	KMOVW R8, K1
	VMOVDQU32 lanes<>(SB), Z12
	VPBROADCASTD BX, Z10
	VPADDD Z12, Z10, K1, Z1

sort:
	VPTERNLOGD $0xFF, Z4, Z4, Z4
	KNOTW K7, K1
	VMOVDQA32 Z4, K1, Z1    // lanes out of use go last
	STEP1(0x6666)
	STEP2(0x3C3C)
	STEP1(0x5A5A)
	STEP4(0x0FF0)
	STEP2(0x33CC)
	STEP1(0x55AA)
	STEP8(0xFF00)
	STEP4(0xF0F0)
	STEP2(0xCCCC)
	STEP1(0xAAAA)

	VPMOVZXDQ Y1, Z2
	VEXTRACTI64X4 $1, Z1, Y3
	VPMOVZXDQ Y3, Z3
	VPBROADCASTQ DX, Z0
	VPADDQ Z0, Z2, Z2
	VPADDQ Z0, Z3, Z3
	KSHIFTRW $8, K7, K6
	VMOVDQU64 Z2, K7, (DI)
	VMOVDQU64 Z3, K6, 64(DI)
	VZEROUPPER
	RET
