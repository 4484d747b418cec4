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
typedef struct {void*func;u32 gx,gy,gz,bx,by,bz,sh;void**params;void**extra;} KP;
/* A node is a kernel, or work of a library with a copy of what it needs. */
typedef struct {KP k;u64 first;void(*work)(const void*);char data[512];} Node;
typedef struct {Node n[64];int count;} G;
static G*capturing;
static int run(u64 first){ launches++; last_argument=first; return 0;}
/* Work put on the stream by a library: done now, or captured. */
int stubPut(void(*work)(const void*),const void*data,size_t bytes,void*stream){ if(stream!=(void*)0x77||bytes>512) return 1; if(!capturing){work(data);return 0;}
  Node*n=&capturing->n[capturing->count++]; n->work=work; memcpy(n->data,data,bytes); return 0;}
int cuLaunchKernel(void*f,u32 gx,u32 gy,u32 gz,u32 bx,u32 by,u32 bz,u32 sh,void*s,void**p,void**e){ if(s!=(void*)0x77||gy!=1||gz!=1||by!=1||bz!=1||e) return 1;
  if(!capturing) return run(*(u64*)p[0]); Node*n=&capturing->n[capturing->count++]; n->work=0; n->first=*(u64*)p[0]; n->k.params=0; return 0;}
int cuStreamBeginCapture_v2(void*s,int mode){ if(s!=(void*)0x77||capturing||mode!=2) return 1; capturing=calloc(1,sizeof(G)); return 0;}
int cuStreamEndCapture(void*s,G**g){ if(!capturing) return 1; *g=capturing; capturing=0; return 0;}
int cuGraphCreate(G**g,u32 f){*g=calloc(1,sizeof(G));return 0;}
int cuGraphAddKernelNode(void**n,G*g,void**deps,size_t nd,const KP*p){ for(u64 q=0;q<nd;q++) if(!deps[q]||(u64)deps[q]>(u64)g->count) return 1; if(p->gy!=1||p->bz!=1||p->extra) return 1; g->n[g->count++].k=*p; *n=(void*)(u64)g->count; return 0;}
/* Edges of the programmatic type, and whether graphs with them are refused. */
static int early, refusing;
int stubEarlyEdges(int refuse){ refusing=refuse; int n=early; early=0; return n; }
typedef struct {unsigned char from,to,type,reserved[5];} Edge;
int cuGraphAddDependencies_v2(G*g,void**from,void**to,const Edge*e,size_t n){ static const Edge want={1,0,1}; if(refusing) return 801;
  for(size_t i=0;i<n;i++) if(!from[i]||from[i]>=to[i]||(u64)to[i]>(u64)g->count||memcmp(&e[i],&want,8)) return 1; early+=n; return 0;}
int cuGraphInstantiateWithFlags(G**e,G*g,u64 f){*e=malloc(sizeof(G));**e=*g;return 0;} int cuGraphExecKernelNodeSetParams(G*e,void*n,const KP*p){e->n[(u64)n-1].k=*p;updates++;return 0;}
int cuGraphExecUpdate_v2(G*e,G*g,void*info){ if(e->count!=g->count) return 910; *e=*g; updates++; return 0;}
int cuGraphLaunch(G*e,void*s){graphs++;for(int i=0;i<e->count;i++){Node*n=&e->n[i]; if(n->work) n->work(n->data); else run(n->k.params?*(u64*)n->k.params[0]:n->first);}return 0;}
int cuGraphExecDestroy(G*e){free(e);return 0;} int cuGraphDestroy(G*e){free(e);return 0;}
int cuGetErrorName(int c,const char**s){*s=c==2?"CUDA_ERROR_OUT_OF_MEMORY":"CUDA_ERROR_OTHER";return 0;} int cuGetErrorString(int c,const char**s){*s="what happened";return 0;}
