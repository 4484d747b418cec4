/* A CUDA driver that keeps device memory on the host and runs nothing: what the bindings are tested against. It checks what it is given. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
typedef uint64_t u64; typedef uint32_t u32;
static int launches, updates, graphs; static u64 last_argument;
/* Counts: launches, updates of graph nodes, launches of graphs. */
int stubCounts(int *out){ out[0]=launches; out[1]=updates; out[2]=graphs; return 0; }
int cuInit(u32 f){return 0;} int cuDriverGetVersion(int*v){*v=13000;return 0;} int cuDeviceGetCount(int*n){*n=1;return 0;}
int cuDeviceGet(int*d,int i){*d=i;return 0;} int cuDeviceGetName(char*s,int n,int d){strcpy(s,"Stub GPU");return 0;}
int cuDeviceTotalMem_v2(size_t*b,int d){*b=1ull<<34;return 0;} int cuDeviceGetAttribute(int*v,int a,int d){*v=a==75?9:a==76?0:a==16?132:a==97?232448:a==38?50<<20:1;return 0;}
int cuDevicePrimaryCtxRetain(void**c,int d){*c=(void*)0x1234;return 0;} int cuDevicePrimaryCtxRelease_v2(int d){return 0;} int cuCtxSetCurrent(void*c){return c==(void*)0x1234?0:201;}
int cuStreamCreate(void**s,u32 f){*s=(void*)0x77;return f==1?0:1;} int cuStreamSynchronize(void*s){return s==(void*)0x77?0:400;} int cuStreamDestroy_v2(void*s){return 0;}
int cuMemAlloc_v2(u64*p,size_t n){ if(n>(1ull<<30)) return 2; *p=(u64)aligned_alloc(4096,(n+4095)/4096*4096);return 0;} int cuMemFree_v2(u64 p){free((void*)p);return 0;}
int cuMemGetInfo_v2(size_t*f,size_t*t){*f=1;*t=2;return 0;} int cuMemHostAlloc(void**p,size_t n,u32 f){*p=malloc(n);return 0;} int cuMemFreeHost(void*p){free(p);return 0;}
int cuMemcpyHtoDAsync_v2(u64 d,const void*s,size_t n,void*st){memcpy((void*)d,s,n);return 0;} int cuMemcpyDtoHAsync_v2(void*d,u64 s,size_t n,void*st){memcpy(d,(void*)s,n);return 0;} int cuMemcpyDtoDAsync_v2(u64 d,u64 s,size_t n,void*st){memmove((void*)d,(void*)s,n);return 0;}
int cuEventCreate(void**e,u32 f){*e=malloc(8);return 0;} int cuEventRecord(void*e,void*s){return s==(void*)0x77?0:400;} int cuEventSynchronize(void*e){return 0;} int cuEventQuery(void*e){return 0;} int cuEventElapsedTime(float*ms,void*a,void*b){*ms=1.5f;return 0;} int cuEventDestroy_v2(void*e){free(e);return 0;}
int cuModuleLoadData(void**m,const void*i){*m=strdup(i);return memcmp(i,"CUBIN",5)?200:0;} int cuModuleUnload(void*m){return 0;} int cuModuleGetFunction(void**f,void*m,const char*n){*f=strdup(n);return 0;}
int cuFuncGetAttribute(int*v,int a,void*f){*v=a==4?40:a==0?1024:0;return 0;} int cuFuncSetAttribute(void*f,int a,int v){return a==8?0:1;} int cuOccupancyMaxActiveBlocksPerMultiprocessor(int*n,void*f,int t,size_t s){*n=6;return 0;}
static int run(const char*f,u32 gx,u32 tx,u32 sh,void**p){ launches++; last_argument=*(u64*)p[0]; return 0;}
int cuLaunchKernel(void*f,u32 gx,u32 gy,u32 gz,u32 bx,u32 by,u32 bz,u32 sh,void*s,void**p,void**e){ if(s!=(void*)0x77||gy!=1||gz!=1||by!=1||bz!=1||e) return 1; return run(f,gx,bx,sh,p);}
typedef struct {void*func;u32 gx,gy,gz,bx,by,bz,sh;void**params;void**extra;} KP;
typedef struct {KP k[64];int n;} G;
int cuGraphCreate(G**g,u32 f){*g=calloc(1,sizeof(G));return 0;}
int cuGraphAddKernelNode(void**n,G*g,void**deps,size_t nd,const KP*p){ if(nd&&deps[0]!=(void*)(u64)(g->n)) return 1; if(p->gy!=1||p->bz!=1||p->extra) return 1; g->k[g->n++]=*p; *n=(void*)(u64)g->n; return 0;}
int cuGraphInstantiateWithFlags(G**e,G*g,u64 f){*e=g;return 0;} int cuGraphExecKernelNodeSetParams(G*e,void*n,const KP*p){e->k[(u64)n-1]=*p;updates++;return 0;}
int cuGraphLaunch(G*e,void*s){graphs++;for(int i=0;i<e->n;i++)run(e->k[i].func,e->k[i].gx,e->k[i].bx,e->k[i].sh,e->k[i].params);return 0;} int cuGraphExecDestroy(G*e){return 0;} int cuGraphDestroy(G*e){return 0;}
int cuGetErrorName(int c,const char**s){*s=c==2?"CUDA_ERROR_OUT_OF_MEMORY":"CUDA_ERROR_OTHER";return 0;} int cuGetErrorString(int c,const char**s){*s="what happened";return 0;}
